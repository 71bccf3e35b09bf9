#include "api/schema.h"

#include <algorithm>
#include <regex>
#include <set>

namespace tritium::test {

using nlohmann::json;

namespace {

const std::set<std::string> kKnown{"$ref",
                                   "type",
                                   "properties",
                                   "required",
                                   "items",
                                   "enum",
                                   "const",
                                   "minimum",
                                   "maximum",
                                   "exclusiveMinimum",
                                   "minLength",
                                   "maxLength",
                                   "minItems",
                                   "maxItems",
                                   "pattern",
                                   "oneOf",
                                   "additionalProperties",
                                   "description",
                                   "default",
                                   "contentMediaType"};

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "integer") return value.is_number_integer();
  return type == "number" && value.is_number();
}

class Check {
 public:
  Check(const json& document, std::vector<std::string>& problems) : document_(document), problems_(problems) {}

  void run(const json& given, const json& value, const std::string& at) {
    const json& schema = given.contains("$ref") ? document_.at(json::json_pointer(given["$ref"].get<std::string>().substr(1))) : given;
    for (const auto& [key, unused] : schema.items())
      if (!kKnown.contains(key)) say(at, "the keyword '" + key + "' is not known");
    check_kind(schema, value, at);
    if (value.is_object()) check_object(schema, value, at);
    if (value.is_array()) check_array(schema, value, at);
    if (value.is_string()) check_string(schema, value, at);
    if (value.is_number()) check_number(schema, value, at);
  }

 private:
  void say(const std::string& at, const std::string& what) { problems_.push_back(at + ": " + what); }

  void check_kind(const json& schema, const json& value, const std::string& at) {
    if (schema.contains("type")) {
      const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
      if (std::none_of(types.begin(), types.end(), [&](const json& type) { return has_type(value, type); }))
        say(at, value.dump() + " is not of type " + types.dump());
    }
    if (schema.contains("const") && schema["const"] != value) say(at, value.dump() + " is not " + schema["const"].dump());
    if (schema.contains("enum") && std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
      say(at, value.dump() + " is not one of " + schema["enum"].dump());
    if (!schema.contains("oneOf")) return;
    const auto fits = [&](const json& one) { return schema_problems(document_, one, value, at).empty(); };
    if (std::count_if(schema["oneOf"].begin(), schema["oneOf"].end(), fits) != 1) say(at, "fits not exactly one of the alternatives");
  }
  void check_object(const json& schema, const json& value, const std::string& at) {
    for (const json& name : schema.value("required", json::array()))
      if (!value.contains(name.get<std::string>())) say(at, name.dump() + " is missing");
    const json properties = schema.value("properties", json::object());
    for (const auto& [key, member] : value.items()) {
      if (properties.contains(key))
        run(properties[key], member, at + "." + key);
      else if (schema.contains("additionalProperties"))
        run(schema["additionalProperties"], member, at + "." + key);
      else if (!properties.empty())
        say(at, "'" + key + "' is not described");  // this interface describes all it says
    }
  }
  void check_array(const json& schema, const json& value, const std::string& at) {
    if (value.size() < schema.value("minItems", 0u) || value.size() > schema.value("maxItems", 1000000u)) say(at, "has the wrong length");
    for (std::size_t i = 0; schema.contains("items") && i < value.size(); ++i)
      run(schema["items"], value[i], at + "[" + std::to_string(i) + "]");
  }
  void check_string(const json& schema, const json& value, const std::string& at) {
    const auto text = value.get<std::string>();
    if (text.size() < schema.value("minLength", 0u) || text.size() > schema.value("maxLength", 1000000u)) say(at, "has the wrong length");
    if (schema.contains("pattern") && !std::regex_search(text, std::regex(schema["pattern"].get<std::string>())))
      say(at, "'" + text + "' does not match");
  }
  void check_number(const json& schema, const json& value, const std::string& at) {
    if (schema.contains("minimum") && value < schema["minimum"]) say(at, value.dump() + " is too small");
    if (schema.contains("maximum") && value > schema["maximum"]) say(at, value.dump() + " is too large");
    if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) say(at, value.dump() + " is too small");
  }

  const json& document_;
  std::vector<std::string>& problems_;
};

}  // namespace

std::vector<std::string> schema_problems(const json& document, const json& schema, const json& value, const std::string& at) {
  std::vector<std::string> problems;
  Check(document, problems).run(schema, value, at);
  return problems;
}

}  // namespace tritium::test
