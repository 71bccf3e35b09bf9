#include "server/native/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace tritium::server::native {

using nlohmann::json;

namespace {

// What a text of a form holds: a number, a truth value, a list or an object; the text itself if none of these.
json value_of_text(const json& value) {
  if (!value.is_string()) return value;
  json parsed = json::parse(value.get_ref<const std::string&>(), nullptr, false);
  return parsed.is_discarded() || parsed.is_string() ? value : parsed;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  return text;
}

// How many letters differ, at most; for guessing what a misspelt name means.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = row[0];
    row[0] = i;
    for (std::size_t k = 1; k <= b.size(); ++k) {
      const std::size_t above = row[k];
      row[k] = std::min({above + 1, row[k - 1] + 1, corner + (a[i - 1] == b[k - 1] ? 0 : 1)});
      corner = above;
    }
  }
  return row.back();
}

// The name that a misspelt one most likely stands for; empty: none is near.
std::string nearest(const std::string& given, const std::set<std::string>& names) {
  constexpr std::size_t kMost = 2, kLongest = 64;
  std::string best;
  std::size_t least = kMost + 1;
  for (const std::string& name : names) {
    if (given.size() > kLongest || name.size() < 4) continue;
    const std::size_t differing = distance(given, name);
    if (differing >= least) continue;
    least = differing;
    best = name;
  }
  return best;
}

}  // namespace

std::string kind_of(const json& value) {
  switch (value.type()) {
    case json::value_t::string:
      return "a text";
    case json::value_t::boolean:
      return "a truth value";
    case json::value_t::array:
      return "a list";
    case json::value_t::object:
      return "an object";
    case json::value_t::null:
      return "null";
    default:
      return "a number";
  }
}

std::string shown(const json& value) {
  constexpr std::size_t kMost = 80;
  std::string out = value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (out.size() <= kMost) return out;
  std::size_t cut = kMost;
  while (cut > 0 && (static_cast<unsigned char>(out[cut]) & 0xc0) == 0x80) --cut;
  return out.substr(0, cut) + "...";
}

Fields::Fields(json object, bool text, std::string where) : object_(std::move(object)), text_(text), where_(std::move(where)) {}

void Fields::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

void Fields::refuse(const std::string& field, std::string message, std::string hint) {
  fail({ErrorCode::usage, std::move(message), path(field), std::move(hint)});
}

const json* Fields::find(Names names) {
  known(names);
  const json* found = nullptr;
  std::string first;
  for (const char* name : names) {
    const auto at = object_.find(name);
    if (at == object_.end() || at->is_null() || (text_ && at->is_string() && at->get_ref<const std::string&>().empty())) continue;
    if (found == nullptr) {
      found = &*at;
      first = name;
    } else if (value_of_text(*found) != value_of_text(*at)) {
      refuse(name, fmt::format("{} contradicts {} {}; they say the same thing", shown(*at), first, shown(*found)), "give one of them");
    }
  }
  return found;
}

std::string Fields::given_as(Names names) const {
  for (const char* name : names)
    if (const auto at = object_.find(name); at != object_.end() && !at->is_null()) return path(name);
  return path(*names.begin());
}

std::optional<std::string> Fields::text(Names names) {
  const json* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  fail({ErrorCode::usage, fmt::format("{} is {}, not a text", shown(*value), kind_of(*value)), given_as(names), ""});
  return std::nullopt;
}

std::optional<double> Fields::number(Names names) {
  const json* value = find(names);
  if (value == nullptr) return std::nullopt;
  const json number = text_ ? value_of_text(*value) : *value;
  if (number.is_number() && std::isfinite(number.get<double>())) return number.get<double>();
  fail({ErrorCode::usage, fmt::format("{} is {}, not a number", shown(*value), kind_of(*value)), given_as(names),
        value->is_string() ? "write it without quotes" : ""});
  return std::nullopt;
}

std::optional<double> Fields::number_or_text(Names names) {
  const json* value = find(names);
  if (value == nullptr || !value->is_string()) return number(names);
  const std::string& text = value->get_ref<const std::string&>();
  double out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (code == std::errc() && end == text.data() + text.size() && std::isfinite(out)) return out;
  fail({ErrorCode::usage, fmt::format("'{}' is not a number", shown(*value)), given_as(names), "write e.g. 5"});
  return std::nullopt;
}

std::optional<std::int64_t> Fields::whole(Names names, std::int64_t least, std::int64_t most) {
  const json* value = find(names);
  if (value == nullptr) return std::nullopt;
  const json number = text_ ? value_of_text(*value) : *value;
  const std::string field = given_as(names);
  if (!number.is_number() || std::trunc(number.get<double>()) != number.get<double>()) {
    fail({ErrorCode::usage, fmt::format("{} is {}, not a whole number", shown(*value), kind_of(*value)), field,
          value_of_text(*value).is_number_integer() ? "write it without quotes" : ""});
    return std::nullopt;
  }
  const double wide = number.get<double>();
  if (wide < static_cast<double>(least) || wide > static_cast<double>(most)) {
    fail({ErrorCode::usage, fmt::format("{} is out of range; allowed are {} to {}", shown(number), least, most), field, ""});
    return std::nullopt;
  }
  return number.is_number_float() ? static_cast<std::int64_t>(wide) : number.get<std::int64_t>();
}

std::optional<std::uint64_t> Fields::seed(Names names) {
  const json* value = find(names);
  if (value == nullptr) return std::nullopt;
  const json number = text_ ? value_of_text(*value) : *value;
  if (number.is_number_unsigned()) return number.get<std::uint64_t>();
  const bool numeric = number.is_number();
  fail({ErrorCode::usage,
        numeric ? fmt::format("{} is out of range; allowed are whole numbers from 0 to 18446744073709551615", shown(*value))
                : fmt::format("{} is {}, not a whole number", shown(*value), kind_of(*value)),
        given_as(names), numeric ? "leave it out for a random one" : ""});
  return std::nullopt;
}

std::optional<bool> Fields::flag(Names names) {
  const json* value = find(names);
  if (value == nullptr) return std::nullopt;
  const json truth = text_ && value->is_string() ? value_of_text(lower(value->get<std::string>())) : *value;
  if (truth.is_boolean()) return truth.get<bool>();
  if (text_ && truth.is_number_integer() && (truth == 0 || truth == 1)) return truth == 1;
  fail({ErrorCode::usage, fmt::format("{} is {}, not true or false", shown(*value), kind_of(*value)), given_as(names), ""});
  return std::nullopt;
}

std::optional<std::string> Fields::choice(Names names, const std::vector<std::string>& allowed) {
  auto given = text(names);
  if (!given) return std::nullopt;
  std::string value = lower(*given);
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  fail({ErrorCode::usage, fmt::format("'{}' is not one of {}", shown(*given), fmt::join(allowed, ", ")), given_as(names), ""});
  return std::nullopt;
}

std::optional<json> Fields::object(Names names) {
  const json* value = find(names);
  if (value == nullptr) return std::nullopt;
  json out = *value;
  if (out.is_string()) {
    if (out.get_ref<const std::string&>().empty()) return std::nullopt;
    out = json::parse(out.get_ref<const std::string&>(), nullptr, false);
  }
  if (out.is_object()) return out;
  fail({ErrorCode::usage,
        out.is_discarded() ? fmt::format("'{}' is not JSON", shown(*value)) : fmt::format("is {}, not an object", kind_of(out)),
        given_as(names), "write e.g. {\"task\": \"t2va\"}"});
  return std::nullopt;
}

std::vector<json> Fields::list(Names names) {
  const json* value = find(names);
  if (value == nullptr) return {};
  const bool written = value->is_string() &&
                       (value->get_ref<const std::string&>().starts_with('[') || value->get_ref<const std::string&>().starts_with('{'));
  json out = written ? json::parse(value->get_ref<const std::string&>(), nullptr, false) : *value;
  if (out.is_discarded()) {
    fail({ErrorCode::usage, fmt::format("'{}' is not JSON", shown(*value)), given_as(names), ""});
    return {};
  }
  if (!out.is_array()) return {std::move(out)};
  std::vector<json> entries;
  for (json& entry : out) {
    // Each of several fields of a form may be an object as text.
    const bool text = entry.is_string() && entry.get_ref<const std::string&>().starts_with('{');
    json parsed = text ? json::parse(entry.get_ref<const std::string&>(), nullptr, false) : std::move(entry);
    if (parsed.is_discarded()) {
      fail({ErrorCode::usage, fmt::format("'{}' is not JSON", shown(entry)), given_as(names), ""});
      return {};
    }
    entries.push_back(std::move(parsed));
  }
  return entries;
}

std::vector<std::string> Fields::unknown() const {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> out;
  for (auto at = object_.begin(); at != object_.end() && out.size() < kMost; ++at) {
    if (known_.contains(at.key())) continue;
    std::string sentence = fmt::format("'{}' is not known here and was ignored", shown(path(at.key())));
    if (const std::string near = nearest(lower(at.key()), known_); !near.empty()) sentence += fmt::format("; did you mean '{}'?", near);
    out.push_back(std::move(sentence));
  }
  return out;
}

}  // namespace tritium::server::native
