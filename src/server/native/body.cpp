#include "server/native/body.h"

#include "base/try.h"
#include "server/native/fields.h"

#include <fmt/format.h>
#include <map>

namespace tritium::server::native {

using nlohmann::json;

namespace {

constexpr int kDeepest = 32;  // nesting of a body; no field needs more than four

Error usage(std::string field, std::string message, std::string hint = {}) {
  return {ErrorCode::usage, std::move(message), std::move(field), std::move(hint)};
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(json(text).dump());
    return true;
  } catch (const json::type_error&) { return false; }
}

// Parses without recursing deeper than kDeepest: the parser itself would follow any nesting.
Result<json> parse_object(const std::string& text) {
  bool too_deep = false;
  const auto look = [&too_deep](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  try {
    json out = json::parse(text, look);
    if (too_deep) return usage("", fmt::format("the body is nested more than {} levels deep", kDeepest));
    if (!out.is_object()) return usage("", fmt::format("the body is {}, not an object", kind_of(out)), "send e.g. {\"prompt\": \"...\"}");
    return out;
  } catch (const json::parse_error& e) {
    const std::string what = e.what();
    return usage("", "the body is not JSON: " + what.substr(what.find("] ") == std::string::npos ? 0 : what.find("] ") + 2),
                 "send an object with the header content-type: application/json, or a form");
  }
}

// One value more under this name.
void add_value(json& target, json value, bool list) {
  if (target.is_null())
    target = list ? json::array({std::move(value)}) : std::move(value);
  else if (target.is_array())
    target.push_back(std::move(value));
  else
    target = json::array({std::move(target), std::move(value)});
}

Result<json> form_object(const http::HttpRequest& request) {
  json out = json::object();
  std::map<std::string, int> files;
  for (const http::FormField& field : request.form) {
    std::string name = field.name, member;
    bool list = false;
    if (name.ends_with("[]")) {
      list = true;
      name.resize(name.size() - 2);
    } else if (const std::size_t open = name.find('['); open != std::string::npos && open > 0 && name.ends_with(']')) {
      member = name.substr(open + 1, name.size() - open - 2);
      name.resize(open);
    }
    if (!is_utf8(field.name) || !is_utf8(field.value)) return usage(is_utf8(name) ? name : "", "is not UTF-8", "");
    json value = field.value;
    if (field.is_file) {
      const int number = ++files[field.name];
      value = "form:" + field.name + (number > 1 ? fmt::format("#{}", number) : "");
    }
    json& target = out[name];
    if (member.empty()) {
      add_value(target, std::move(value), list);
    } else {
      if (!target.is_null() && !target.is_object()) return usage(name, "is given both as a value and with members");
      add_value(target[member], std::move(value), false);
    }
  }
  return out;
}

// The same value, where one may be the text of a form.
bool same(const json& a, const json& b) {
  const auto plain = [](const json& value) {
    if (!value.is_string()) return value;
    json parsed = json::parse(value.get_ref<const std::string&>(), nullptr, false);
    return parsed.is_discarded() ? value : parsed;
  };
  return plain(a) == plain(b);
}

Result<void> merge_extras(Body& body) {
  for (const char* name : {"extra_body", "extra_params", "extra_json"}) {
    Fields fields(body.object, body.text);
    const std::optional<json> extra = fields.object({name});
    if (!fields.ok()) return *fields.error();
    body.object.erase(name);
    if (!extra) continue;
    for (const auto& [key, value] : extra->items()) {
      json& target = body.object[key];
      if (!target.is_null() && !value.is_null() && !same(target, value))
        return usage(std::string(name) + "." + key,
                     fmt::format("{} contradicts {} {} of the body itself", shown(value), key, shown(target)), "give one of them");
      if (target.is_null()) {
        target = value;
        body.extras.push_back(key);
      }
    }
  }
  return {};
}

}  // namespace

Result<Body> read_body(const http::HttpRequest& request) {
  Body out;
  out.text = request.is_form;
  if (request.is_form) {
    if (!request.form.empty() && request.form.front().name.starts_with('{'))
      return usage("", "the body looks like JSON, but came as a form", "send the header content-type: application/json");
    TRITIUM_TRY_ASSIGN(out.object, form_object(request));
  } else if (request.body.empty()) {
    return usage("", "the body is empty", "send an object such as {\"prompt\": \"...\"}, or a form");
  } else {
    TRITIUM_TRY_ASSIGN(out.object, parse_object(request.body));
  }
  TRITIUM_TRY(merge_extras(out));
  return out;
}

const http::FormField* form_file(const http::HttpRequest& request, std::string_view uri) {
  constexpr std::string_view kScheme = "form:";
  if (!uri.starts_with(kScheme)) return nullptr;
  const std::string_view wanted = uri.substr(kScheme.size());
  std::map<std::string, int> files;
  for (const http::FormField& field : request.form) {
    if (!field.is_file) continue;
    const int number = ++files[field.name];
    if (wanted == field.name + (number > 1 ? fmt::format("#{}", number) : "")) return &field;
  }
  return nullptr;
}

}  // namespace tritium::server::native
