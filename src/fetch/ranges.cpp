#include "fetch/ranges.h"

#include <algorithm>

namespace tritium::fetch {

void Ranges::add(ByteRange range) {
  if (range.first >= range.end) return;
  auto at = ends_.upper_bound(range.first);
  if (at != ends_.begin() && std::prev(at)->second >= range.first) --at;
  while (at != ends_.end() && at->first <= range.end) {
    range.first = std::min(range.first, at->first);
    range.end = std::max(range.end, at->second);
    at = ends_.erase(at);
  }
  ends_[range.first] = range.end;
}

bool Ranges::overlaps(ByteRange range) const {
  const auto at = ends_.lower_bound(range.end);  // the first that begins behind it
  return at != ends_.begin() && std::prev(at)->second > range.first;
}

std::uint64_t Ranges::total() const {
  std::uint64_t sum = 0;
  for (const auto& [first, end] : ends_) sum += end - first;
  return sum;
}

std::uint64_t Ranges::prefix() const { return ends_.empty() || ends_.begin()->first != 0 ? 0 : ends_.begin()->second; }

std::vector<ByteRange> Ranges::gaps(std::uint64_t size) const {
  std::vector<ByteRange> out;
  std::uint64_t at = 0;
  for (const auto& [first, end] : ends_) {
    if (first >= size) break;
    if (first > at) out.push_back({at, first});
    at = end;
  }
  if (at < size) out.push_back({at, size});
  return out;
}

}  // namespace tritium::fetch
