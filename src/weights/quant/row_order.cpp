#include "weights/quant/row_order.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {

RowOrder deinterleaved_qkv(std::int64_t heads, std::int64_t head_dim) {
  RowOrder order;
  order.reserve(static_cast<std::size_t>(3 * heads));
  for (std::int64_t part = 0; part < 3; ++part)
    for (std::int64_t head = 0; head < heads; ++head) order.push_back({(head * 3 + part) * head_dim, head_dim});
  return order;
}

RowOrder swapped_halves(std::int64_t rows) { return {{rows / 2, rows / 2}, {0, rows / 2}}; }

Result<void> check_row_order(const RowOrder& order, std::int64_t rows) {
  if (order.empty()) return {};
  RowOrder sorted = order;
  std::sort(sorted.begin(), sorted.end(),
            [](const RowRun& a, const RowRun& b) { return std::pair(a.first, a.count) < std::pair(b.first, b.count); });
  std::int64_t next = 0;
  for (const RowRun& run : sorted) {
    if (run.count < 0 || run.first != next || run.count > rows - next)
      return Error{ErrorCode::failure,
                   fmt::format("row order: a run of {} rows from {} on, where row {} of {} is next", run.count, run.first, next, rows), "",
                   ""};
    next += run.count;
  }
  if (next != rows) return Error{ErrorCode::failure, fmt::format("row order: it covers {} of {} rows", next, rows), "", ""};
  return {};
}

}  // namespace tritium
