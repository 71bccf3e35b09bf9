#include "server/comfy/record.h"

#include "server/input/json_depth.h"

namespace tritium::server::comfy {
namespace {

constexpr int kMaxDepth = 100;

std::string string_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string text_of(const Json& document) { return document.dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<Json> parse_document(const std::string& text) {
  if (server::nested_deeper_than(text, kMaxDepth)) return Error{ErrorCode::usage, "the body is nested deeper than 100 levels", "", ""};
  Json out = Json::parse(text, nullptr, false);
  if (out.is_discarded()) return Error{ErrorCode::usage, "the body is not JSON", "", "send a JSON document"};
  return out;
}

std::string Record::client_id() const { return string_at(extra, "client_id"); }

std::string Record::workflow_id() const {
  const auto info = extra.find("extra_pnginfo");
  if (info == extra.end() || !info->is_object()) return {};
  const auto workflow = info->find("workflow");
  return workflow != info->end() && workflow->is_object() ? string_at(*workflow, "id") : std::string();
}

std::string Record::class_of(const std::string& node) const {
  const auto found = prompt.find(node);
  return found != prompt.end() && found->is_object() ? string_at(*found, "class_type") : std::string();
}

std::string Record::node_of(const std::string& stage) const {
  const auto found = stages.find(stage);
  return found == stages.end() ? std::string() : found->second;
}

Json notes_json(const std::vector<Note>& notes) {
  Json out = Json::array();
  for (const Note& n : notes)
    out.push_back(
        {{"node_id", n.node}, {"class_type", n.class_type}, {"input", n.input}, {"from", n.from}, {"to", n.to}, {"reason", n.reason}});
  return out;
}

Json without_secrets(const Json& extra_data) {
  Json out = Json::object();
  if (!extra_data.is_object()) return out;
  for (const auto& [name, value] : extra_data.items()) {
    const bool secret = name.find("token") != std::string::npos || name.find("api_key") != std::string::npos;
    if (!secret) out[name] = value;
  }
  return out;
}

std::string encode_record(const Record& record) {
  Json out{{"prompt", record.prompt}, {"extra", record.extra}, {"front", record.front}, {"stages", record.stages}, {"order", record.order}};
  if (record.number) out["number"] = *record.number;
  out["notes"] = notes_json(record.notes);
  out["outputs"] = Json::array();
  for (const OutputNode& o : record.outputs)
    out["outputs"].push_back({{"id", o.id}, {"class_type", o.class_type}, {"subfolder", o.subfolder}, {"prefix", o.prefix}});
  return text_of(out);
}

Record decode_record(const std::string& text) {
  Record out;
  const Json in = Json::parse(text, nullptr, false);
  if (in.is_discarded() || !in.is_object()) return out;
  try {
    out.prompt = in.at("prompt");
    out.extra = in.at("extra");
    out.front = in.at("front").get<bool>();
    out.stages = in.at("stages").get<std::map<std::string, std::string>>();
    out.order = in.at("order").get<std::vector<std::string>>();
    if (in.contains("number")) out.number = in["number"].get<double>();
    for (const Json& o : in.at("outputs"))
      out.outputs.push_back({string_at(o, "id"), string_at(o, "class_type"), string_at(o, "subfolder"), string_at(o, "prefix")});
    for (const Json& n : in.at("notes"))
      out.notes.push_back({string_at(n, "node_id"), string_at(n, "class_type"), string_at(n, "input"), string_at(n, "from"),
                           string_at(n, "to"), string_at(n, "reason")});
  } catch (const Json::exception&) { return {}; }
  return out;
}

}  // namespace tritium::server::comfy
