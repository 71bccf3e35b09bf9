#include "server/minimax/fields.h"

#include "base/try.h"
#include "server/input/json_depth.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::server::minimax {
namespace {

constexpr int kMaxDepth = 100;

const Json* present(const Json& object, const std::string& name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string shown_value(const Json& value) {
  std::string out = text_of(value);
  if (out.size() > 100) out = out.substr(0, 100) + "...";
  return out;
}

}  // namespace

std::string text_of(const Json& document) { return document.dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<Json> parse_object(const std::string& text) {
  if (nested_deeper_than(text, kMaxDepth)) return wrong("", "the body is nested deeper than 100 levels");
  Json out = Json::parse(text, nullptr, false);
  if (out.is_discarded() || !out.is_object())
    return wrong("", "the body is not a JSON object", "send Content-Type: application/json with an object");
  return out;
}

Error wrong(std::string field, std::string message, std::string hint) {
  return Error{ErrorCode::usage, std::move(message), std::move(field), std::move(hint)};
}

Result<std::optional<std::string>> string_field(const Json& object, const std::string& name, const std::string& shown) {
  const Json* value = present(object, name);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong(shown, fmt::format("{} is not a string", shown_value(*value)));
  return std::optional(value->get<std::string>());
}

Result<std::optional<std::int64_t>> integer_field(const Json& object, const std::string& name, std::int64_t least, std::int64_t most) {
  const Json* value = present(object, name);
  if (value == nullptr) return std::optional<std::int64_t>();
  const bool too_large = value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  if (!value->is_number_integer() || too_large || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most)
    return wrong(name, fmt::format("{} is not allowed; allowed are whole numbers from {} to {}", shown_value(*value), least, most));
  return std::optional(value->get<std::int64_t>());
}

Result<bool> boolean_field(const Json& object, const std::string& name) {
  const Json* value = present(object, name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) return wrong(name, fmt::format("{} is not true or false", shown_value(*value)));
  return value->get<bool>();
}

Result<std::string> one_of(const std::string& field, const std::string& value, const std::vector<std::string>& allowed,
                           const std::string& hint) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  return wrong(field, fmt::format("'{}' is not allowed; allowed are {}", value, fmt::join(allowed, ", ")), hint);
}

std::size_t characters(const std::string& utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void note_unknown(const Json& object, const std::vector<std::string>& known, std::vector<Note>& notes) {
  for (const auto& [name, value] : object.items())
    if (std::find(known.begin(), known.end(), name) == known.end() && notes.size() < 50)
      notes.push_back({name, shown_value(value), "", "this field is not known here and has no effect"});
}

}  // namespace tritium::server::minimax
