#include "server/http/range.h"

#include "server/http/url.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace tritium::http {
namespace {

// Digits only; what does not fit counts as the largest number. None: not digits.
std::optional<std::uint64_t> position(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() ? value : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

std::optional<RangeAnswer> parse_range(std::string_view text, std::uint64_t bytes) {
  constexpr std::string_view kUnit = "bytes=";
  if (text.size() < kUnit.size() || !same_text(text.substr(0, kUnit.size()), kUnit)) return std::nullopt;
  text = trimmed(text.substr(kUnit.size()));
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos || text.find(',') != std::string_view::npos) return std::nullopt;
  const std::string_view from = trimmed(text.substr(0, dash)), to = trimmed(text.substr(dash + 1));
  if (from.empty()) {  // the last so many bytes
    const auto count = position(to);
    if (!count) return std::nullopt;
    const std::uint64_t length = std::min(*count, bytes);
    return RangeAnswer{bytes - length, length};
  }
  const auto first = position(from);
  const auto last = to.empty() ? std::optional(std::numeric_limits<std::uint64_t>::max()) : position(to);
  if (!first || !last || *last < *first) return std::nullopt;
  if (*first >= bytes) return RangeAnswer{0, 0};
  return RangeAnswer{*first, std::min(*last, bytes - 1) - *first + 1};
}

bool names_etag(std::string_view list, std::string_view etag) {
  if (trimmed(list) == "*") return true;
  while (!(list = trimmed(list)).empty()) {
    if (list.starts_with("W/")) list.remove_prefix(2);
    if (!list.starts_with('"')) return false;
    const std::size_t quote = list.find('"', 1);
    if (quote == std::string_view::npos) return false;
    if (list.substr(1, quote - 1) == etag) return true;
    list = trimmed(list.substr(quote + 1));
    if (!list.starts_with(',')) return false;
    list.remove_prefix(1);
  }
  return false;
}

FilePart choose_part(const FileConditions& conditions, std::uint64_t bytes, const std::string& etag) {
  if (!etag.empty() && !conditions.if_none_match.empty() && names_etag(conditions.if_none_match, etag)) return {304, 0, 0};
  const bool range_holds = conditions.if_range.empty() || (!etag.empty() && conditions.if_range == '"' + etag + '"');
  const auto range = conditions.range.empty() || !range_holds ? std::nullopt : parse_range(conditions.range, bytes);
  if (!range) return {200, 0, bytes};
  if (range->length == 0) return {416, 0, 0};
  return {206, range->first, range->length};
}

}  // namespace tritium::http
