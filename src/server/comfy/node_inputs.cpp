// Reading inputs: literals, links and standards, checked against the table in ComfyUI's words.
#include "server/comfy/evaluator.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tritium::server::comfy {
namespace {

std::string shown(const Json& value) {
  std::string out =
      value.is_string() ? fmt::format("'{}'", value.get<std::string>()) : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (out.size() > 200) out = out.substr(0, 200) + "...";
  return out;
}

// ComfyUI takes numbers that are written as text.
std::optional<double> number_in(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  double out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return out;
}

Json json_of(const Value& value) {
  if (const auto* i = std::get_if<std::int64_t>(&value)) return *i;
  if (const auto* d = std::get_if<double>(&value)) return *d;
  if (const auto* b = std::get_if<bool>(&value)) return *b;
  if (const auto* s = std::get_if<std::string>(&value)) return *s;
  return nullptr;
}

}  // namespace

const InputSpec& NodeInputs::spec(const std::string& name) const {
  static const InputSpec none;
  const InputSpec* found = node_.spec->input(name);
  return found != nullptr ? *found : none;
}

void NodeInputs::problem(std::string type, std::string message, std::string details, const std::string& input, Json received) {
  failed_ = true;
  evaluator_.problems().add(node_, {std::move(type), std::move(message), std::move(details), input, std::move(received)});
}

void NodeInputs::refuse(const std::string& input, const std::string& why) {
  const Json* given = node_.input(input);
  problem("custom_validation_failed", "Custom validation failed for node", input.empty() ? why : fmt::format("{}: {}", input, why), input,
          given != nullptr && !as_link(*given) ? *given : Json());
}

void NodeInputs::note(const std::string& input, const std::string& from, const std::string& to, const std::string& reason) {
  evaluator_.note({node_.id, node_.class_type, input, from, to, reason});
}

void NodeInputs::mismatch(const std::string& name, const Value& value) {
  problem("return_type_mismatch", "Return type mismatch between linked nodes",
          fmt::format("{}, received_type({}) mismatch input_type({})", name, type_name(value), spec(name).type), name);
}

std::optional<Value> NodeInputs::linked(const std::string& name, bool required) {
  const Json* given = node_.input(name);
  if (given == nullptr) {
    if (required) problem("required_input_missing", "Required input is missing", name, name);
    return std::nullopt;
  }
  const auto link = as_link(*given);
  if (!link) {
    problem("bad_linked_input", "Bad linked input, must be a length-2 list of [node_id, slot_index]", name, name, *given);
    return std::nullopt;
  }
  const Node* from = evaluator_.graph().find(link->node);
  if (from == nullptr) {
    problem("bad_linked_input", "Bad linked input, the node is not in the prompt",
            fmt::format("{}: there is no node '{}'", name, link->node), name, *given);
    return std::nullopt;
  }
  if (static_cast<std::size_t>(link->slot) >= from->spec->outputs.size()) {
    problem("bad_linked_input", "Bad linked input, the node has no such output",
            fmt::format("{}: {} has outputs 0 to {}", name, from->class_type, static_cast<int>(from->spec->outputs.size()) - 1), name,
            *given);
    return std::nullopt;
  }
  auto value = evaluator_.output(*link);
  if (!value) failed_ = true;  // recorded where it happened
  return value;
}

std::optional<Value> NodeInputs::value(const InputSpec& spec, const std::string& name) {
  const Json* given = node_.input(name);
  if (given != nullptr && given->is_array()) return linked(name, true);
  const Json& literal = given != nullptr ? *given : spec.standard;
  if (literal.is_null()) {
    problem("required_input_missing", "Required input is missing", name, name);
    return std::nullopt;
  }
  if (literal.is_string()) return literal.get<std::string>();
  if (literal.is_boolean()) return literal.get<bool>();
  if (literal.is_number_unsigned() && literal.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return literal.get<double>();
  if (literal.is_number_integer()) return literal.get<std::int64_t>();
  if (literal.is_number_float()) return literal.get<double>();
  problem("invalid_input_type", fmt::format("Failed to convert an input value to a {} value", spec.type),
          fmt::format("{}, {}", name, shown(literal)), name, literal);
  return std::nullopt;
}

void NodeInputs::check_range(const InputSpec& spec, double value) {
  if (value < spec.least)
    problem("value_smaller_than_min", fmt::format("Value {} smaller than min of {}", value, spec.least), spec.name, spec.name, value);
  if (value > spec.most)
    problem("value_bigger_than_max", fmt::format("Value {} bigger than max of {}", value, spec.most), spec.name, spec.name, value);
}

std::int64_t NodeInputs::integer(const std::string& name) {
  const InputSpec& s = spec(name);
  const auto found = value(s, name);
  if (!found) return 0;
  if (const auto* whole = std::get_if<std::int64_t>(&*found)) {
    check_range(s, static_cast<double>(*whole));
    return *whole;
  }
  const auto real = number_in(json_of(*found));
  if (!real || !std::isfinite(*real) || std::abs(*real) > 9e15) {
    problem("invalid_input_type", "Failed to convert an input value to a INT value", fmt::format("{}, {}", name, shown(json_of(*found))),
            name, json_of(*found));
    return 0;
  }
  check_range(s, std::trunc(*real));
  return static_cast<std::int64_t>(*real);
}

std::uint64_t NodeInputs::seed(const std::string& name) {
  if (const Json* given = node_.input(name); given != nullptr && given->is_number_unsigned()) return given->get<std::uint64_t>();
  const std::int64_t out = integer(name);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(out, 0));
}

double NodeInputs::number(const std::string& name) {
  const InputSpec& s = spec(name);
  const auto found = value(s, name);
  if (!found) return 0;
  const auto real = number_in(json_of(*found));
  if (!real || !std::isfinite(*real)) {
    problem("invalid_input_type", "Failed to convert an input value to a FLOAT value", fmt::format("{}, {}", name, shown(json_of(*found))),
            name, json_of(*found));
    return 0;
  }
  check_range(s, *real);
  return *real;
}

bool NodeInputs::boolean(const std::string& name) {
  const auto found = value(spec(name), name);
  if (!found) return false;
  if (const auto* text = std::get_if<std::string>(&*found)) return !text->empty() && *text != "false" && *text != "False" && *text != "0";
  const auto real = number_in(json_of(*found));
  if (!real) mismatch(name, *found);
  return real.value_or(0) != 0;
}

std::string NodeInputs::text(const std::string& name) {
  const InputSpec& s = spec(name);
  const auto found = value(s, name);
  if (!found) return {};
  const Json plain = json_of(*found);
  if (plain.is_null()) {
    mismatch(name, *found);
    return {};
  }
  const std::string out = plain.is_string() ? plain.get<std::string>() : plain.dump();
  if (s.kind == InputKind::choice && std::find(s.options.begin(), s.options.end(), out) == s.options.end())
    problem("value_not_in_list", "Value not in list", fmt::format("{}: '{}' not in ['{}']", name, out, fmt::join(s.options, "', '")), name,
            plain);
  return out;
}

Number NodeInputs::any_number(const std::string& name) {
  const auto found = value(spec(name), name);
  if (!found) return std::int64_t{0};
  if (const auto* whole = std::get_if<std::int64_t>(&*found)) return *whole;
  if (const auto* flag = std::get_if<bool>(&*found)) return std::int64_t{*flag ? 1 : 0};
  if (const auto* real = std::get_if<double>(&*found)) return *real;
  problem("invalid_input_type", "Failed to convert an input value to a FLOAT value", fmt::format("{}, {}", name, shown(json_of(*found))),
          name, json_of(*found));
  return std::int64_t{0};
}

std::vector<std::string> NodeInputs::series(const std::string& name) {
  const InputSpec& s = spec(name);
  std::vector<std::pair<int, std::string>> found;
  for (const auto& [key, given] : node_.inputs.items()) {
    if (given.is_null()) continue;
    // Older versions of the nodes had "ref_image_0" without the group in front.
    std::string rest = key.rfind(name + ".", 0) == 0 ? key.substr(name.size() + 1) : s.prefix.empty() ? std::string() : key;
    if (rest.empty() || rest.rfind(s.prefix, 0) != 0) continue;
    rest = rest.substr(s.prefix.size());
    int index = 0;
    if (s.prefix.empty()) {
      if (rest.size() != 1 || rest[0] < 'a' || rest[0] > 'z') continue;
      index = rest[0] - 'a';
    } else if (const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
               code != std::errc{} || end != rest.data() + rest.size() || index < 0) {
      continue;
    }
    found.emplace_back(index, key);
  }
  std::sort(found.begin(), found.end());
  if (found.size() > static_cast<std::size_t>(s.count)) refuse(name, fmt::format("{} are given; allowed are {}", found.size(), s.count));
  std::vector<std::string> out;
  for (auto& [index, key] : found) out.push_back(std::move(key));
  return out;
}

}  // namespace tritium::server::comfy
