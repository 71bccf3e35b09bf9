// The text forms of HTTP: targets, pairs of forms and queries, parameters of header fields.
#pragma once

#include <tritium/result.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tritium::http {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string lower_case(std::string_view text);           // ASCII
bool same_text(std::string_view a, std::string_view b);  // ASCII letters of either case are the same
std::string_view trimmed(std::string_view text);         // of spaces and tabs

// "%41" → "A", with `plus` also "+" → " ". None: an escape that is not complete.
std::optional<std::string> percent_decoded(std::string_view text, bool plus);

// "a=1&b" → {{"a", "1"}, {"b", ""}}, as in queries and in application/x-www-form-urlencoded. Errors: usage.
Result<Pairs> parse_pairs(std::string_view text, std::size_t max_pairs);

struct Target {
  std::string path;  // decoded, begins with "/"
  Pairs query;
};
// Of the request line: "/path?query", or the same behind "http://host". Errors: usage; also for what no honest client sends: control
// characters, and segments "." and "..".
Result<Target> parse_target(std::string_view target, std::size_t max_pairs);

// "multipart/form-data; boundary=\"x\"" → {"multipart/form-data", {{"boundary", "x"}}}; names in lower case. None: not of this form.
struct FieldValue {
  std::string value;
  Pairs parameters;
  [[nodiscard]] const std::string* find(std::string_view name) const;
};
std::optional<FieldValue> parse_field_value(std::string_view text);

// Whether the comma-separated list holds the token, in letters of either case.
bool list_holds(std::string_view list, std::string_view token);

}  // namespace tritium::http
