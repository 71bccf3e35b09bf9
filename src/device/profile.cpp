#include "device/profile.h"

#include "device/scope_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace tritium {
namespace {

constexpr std::size_t kMaxEvents = 1'000'000;  // of a trace; the table counts on

// Nodes without a name of their own are called "node_7" by ggml, views "x (reshaped)". Of other names the part up to the last dot may hold
// the number of a block, and what comes before a blank is the kind of a kernel of Tritium's own.
std::string name_of(const ggml_tensor* node) {
  const std::string_view name = node->name;
  if (name.empty() || name.starts_with("node_") || name.ends_with(")")) return "";
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::string(name);
  const std::size_t blank = name.rfind(' ', dot), scope = blank == std::string_view::npos ? 0 : blank;
  return fmt::format("{}{}{}", name.substr(0, scope), without_numbers(std::string(name.substr(scope, dot - scope))), name.substr(dot));
}

std::string describe(const ggml_tensor* node) {
  const std::string name = name_of(node);
  const std::string_view operation = node->op == GGML_OP_CUSTOM && !name.empty() ? "kernel" : ggml_op_desc(node);
  return fmt::format("{}{}{} {} [{}]", operation, name.empty() ? "" : " ", name, ggml_type_name(node->type), fmt::join(node->ne, ", "));
}

double bytes_of(const ggml_tensor* node) {
  auto sum = static_cast<double>(ggml_nbytes(node));
  for (int i = 0; i < GGML_MAX_SRC && node->src[i] != nullptr; ++i) sum += static_cast<double>(ggml_nbytes(node->src[i]));
  return sum;
}

}  // namespace

void Profile::add(const std::string& scope, const ggml_tensor* node, double start, double seconds) {
  const std::string where = without_numbers(scope), what = describe(node);
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.scope == where && row.operation == what; });
  const auto row = static_cast<std::size_t>(found - rows_.begin());
  if (found == rows_.end()) rows_.push_back({where, what, 0, 0, 0});
  ++rows_[row].count;
  rows_[row].seconds += seconds;
  rows_[row].bytes += bytes_of(node);
  if (events_.size() < kMaxEvents) events_.push_back({row, scope, start, seconds});
}

std::vector<Profile::Row> Profile::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<Row> out = rows_;
  std::stable_sort(out.begin(), out.end(), [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  return out;
}

std::string Profile::table(double share) const {
  const std::vector<Row> all = rows();
  double total = 0, shown = 0;
  for (const Row& row : all) total += row.seconds;
  std::string out = fmt::format("{:>9} {:>6} {:>7} {:>9}  {}\n", "seconds", "share", "times", "GB/s", "operation");
  for (const Row& row : all) {
    if (shown > share * total) break;
    shown += row.seconds;
    out += fmt::format("{:9.4f} {:5.1f}% {:7} {:9.1f}  {}: {}\n", row.seconds, 100 * row.seconds / total, row.count,
                       row.bytes / row.seconds * 1e-9, row.scope, row.operation);
  }
  return out + fmt::format("{:9.4f} seconds in {} kinds of operations\n", total, all.size());
}

std::string Profile::trace() const {
  const std::lock_guard lock(mutex_);
  nlohmann::json events = nlohmann::json::array();
  const double zero = events_.empty() ? 0 : events_.front().start;
  const auto event = [&](const std::string& name, double start, double end, int track) {
    events.push_back({{"name", name}, {"ph", "X"}, {"ts", (start - zero) * 1e6}, {"dur", (end - start) * 1e6}, {"pid", 1}, {"tid", track}});
  };
  for (std::size_t i = 0; i < events_.size();) {
    std::size_t last = i;
    while (last + 1 < events_.size() && events_[last + 1].scope == events_[i].scope) ++last;
    event(events_[i].scope, events_[i].start, events_[last].start + events_[last].seconds, 1);
    for (; i <= last; ++i) event(rows_[events_[i].row].operation, events_[i].start, events_[i].start + events_[i].seconds, 2);
  }
  return nlohmann::json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace tritium
