// The rows of a matrix in another order than the file has them (spec/weights.md §1.2). Scales and codes of all formats are stored by
// row, so the order of rows can be changed while reading, without quantizing again.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <vector>

namespace tritium {

// Consecutive rows of the file.
struct RowRun {
  std::int64_t first = 0, count = 0;
};
// The wanted rows from first to last, as runs of rows of the file. Empty: as in the file.
using RowOrder = std::vector<RowRun>;

// Files with rows [heads][q, k, v][head_dim], read as [q, k, v][heads][head_dim].
RowOrder deinterleaved_qkv(std::int64_t heads, std::int64_t head_dim);
// Files whose first and second half of `rows` rows are exchanged. Precondition: rows is even.
RowOrder swapped_halves(std::int64_t rows);

// Every row from 0 to rows-1 exactly once, or empty. Error code failure.
Result<void> check_row_order(const RowOrder& order, std::int64_t rows);

// Calls visit(first row of the file, count, first position among the wanted rows) -> Result<void> for each run within [begin, end).
template <class Visit>
Result<void> for_each_run(const RowOrder& order, std::int64_t begin, std::int64_t end, Visit visit) {
  if (begin >= end) return {};
  if (order.empty()) return visit(begin, end - begin, begin);
  std::int64_t position = 0;
  for (const RowRun& run : order) {
    const std::int64_t from = position > begin ? position : begin;
    const std::int64_t to = position + run.count < end ? position + run.count : end;
    if (from < to)
      if (Result<void> done = visit(run.first + (from - position), to - from, from); !done.ok()) return done;
    position += run.count;
    if (position >= end) break;
  }
  return {};
}

}  // namespace tritium
