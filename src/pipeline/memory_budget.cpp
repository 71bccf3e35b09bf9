#include "pipeline/memory_budget.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>

namespace tritium {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024, kMostGib = 1048576;
constexpr std::uint64_t kLeastReserve = std::uint64_t{256} << 20;

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

Result<std::uint64_t> parse_gib(const std::string& text, const std::string& whole) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0 || value > kMostGib)
    return Error{ErrorCode::usage, fmt::format("'{}' is not DEVICE=GiB or a number of GiB above 0 and up to {}", whole, kMostGib),
                 "memory-budget", "for example CPU=12.5; 'tritium devices' lists the names"};
  return static_cast<std::uint64_t>(value * kGib);
}

}  // namespace

std::optional<std::uint64_t> MemoryBudgets::of(const std::string& device) const {
  const auto found = devices.find(lower(device));
  return found != devices.end() ? std::optional(found->second) : everywhere;
}

Result<MemoryBudgets> parse_memory_budgets(std::span<const std::string> texts) {
  MemoryBudgets out;
  for (const std::string& text : texts)
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      const std::string item = text.substr(begin, end - begin);
      begin = end + 1;
      const std::size_t equals = item.rfind('=');
      TRITIUM_TRY_ASSIGN(const std::uint64_t bytes, parse_gib(equals == std::string::npos ? item : item.substr(equals + 1), item));
      const bool repeated = equals == std::string::npos ? std::exchange(out.everywhere, bytes).has_value()
                                                        : !out.devices.emplace(lower(item.substr(0, equals)), bytes).second;
      if (repeated || equals == 0)
        return Error{ErrorCode::usage, fmt::format("'{}' {}", item, repeated ? "is given twice" : "names no device"), "memory-budget",
                     "for example CPU=12.5"};
    }
  return out;
}

std::uint64_t memory_reserve(std::uint64_t free_bytes) { return std::max(free_bytes / 20, kLeastReserve); }

std::uint64_t memory_budget(std::uint64_t free_bytes, std::optional<std::uint64_t> asked) {
  if (asked) return std::min(*asked, free_bytes);
  return free_bytes - std::min(free_bytes, memory_reserve(free_bytes));
}

}  // namespace tritium
