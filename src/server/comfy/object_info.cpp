#include "server/comfy/object_info.h"

#include <algorithm>
#include <limits>

namespace tritium::server::comfy {
namespace {

// A type that several others fit is written with all of them.
Json input_entry(const NodeSpec& node, const InputSpec& input, const NameLists& lists) {
  Json options = Json::object();
  if (!input.tip.empty()) options["tooltip"] = input.tip;
  if (!input.standard.is_null()) options["default"] = input.standard;
  switch (input.kind) {
    case InputKind::integer:
    case InputKind::number:
      options["min"] = input.kind == InputKind::integer ? Json(input.least < 0 ? static_cast<std::int64_t>(std::max(input.least, -9.2e18))
                                                                               : static_cast<std::int64_t>(input.least))
                                                        : Json(input.least);
      options["max"] = input.kind == InputKind::number ? Json(input.most)
                       : input.most >= 1.8e19          ? Json(std::numeric_limits<std::uint64_t>::max())
                       : input.most >= 9.2e18          ? Json(std::numeric_limits<std::int64_t>::max())
                                                       : Json(static_cast<std::int64_t>(input.most));
      options["step"] = input.kind == InputKind::integer ? Json(static_cast<std::int64_t>(input.step)) : Json(input.step);
      return Json::array({input.type, options});
    case InputKind::text:
      options["multiline"] = input.name == "prompt" || input.name == "text" || node.name == "PrimitiveStringMultiline";
      return Json::array({input.type, options});
    case InputKind::choice:
    case InputKind::file: {
      const auto found = lists.find(input.list);
      const std::vector<std::string>& names = input.kind == InputKind::choice ? input.options
                                              : found != lists.end()          ? found->second
                                                                              : input.options;
      if (input.list == "images" || input.list == "videos" || input.list == "sounds")
        options[input.list == "images" ? "image_upload" : input.list == "videos" ? "video_upload" : "audio_upload"] = true;
      if (!node.new_style) return Json::array({names, options});
      options["options"] = names;
      return Json::array({"COMBO", options});
    }
    case InputKind::series: {
      Json inner = Json::array({input.type.substr(0, input.type.find(',')), Json::object()});
      const std::string name = input.prefix.empty() ? "value" : input.prefix.substr(0, input.prefix.size() - 1);
      Json entry{{"input", {{"required", {{name, inner}}}}}, {"min", 0}, {"max", input.count}};
      if (!input.prefix.empty()) entry["prefix"] = input.prefix;
      options["template"] = entry;
      return Json::array({"COMFY_AUTOGROW_V3", options});
    }
    case InputKind::boolean:
    case InputKind::link:
      break;
  }
  return Json::array({input.type, options});
}

}  // namespace

Json object_info(const NodeSpec& node, const NameLists& lists) {
  Json required = Json::object(), optional = Json::object(), order_required = Json::array(), order_optional = Json::array();
  for (const InputSpec& input : node.inputs) {
    if (input.hidden) continue;
    (input.required ? required : optional)[input.name] = input_entry(node, input, lists);
    (input.required ? order_required : order_optional).push_back(input.name);
  }
  Json types = Json::array(), names = Json::array(), lists_out = Json::array();
  for (const OutputSpec& output : node.outputs) {
    types.push_back(output.type);
    names.push_back(output.name);
    lists_out.push_back(false);
  }
  Json input{{"required", required}}, order{{"required", order_required}};
  if (!optional.empty()) {
    input["optional"] = optional;
    order["optional"] = order_optional;
  }
  return {{"input", input},
          {"input_order", order},
          {"is_input_list", false},
          {"output", types},
          {"output_is_list", lists_out},
          {"output_name", names},
          {"name", node.name},
          {"display_name", node.display},
          {"description", node.description},
          {"python_module", "tritium"},
          {"category", node.category},
          {"output_node", node.is_output},
          {"deprecated", false},
          {"experimental", false}};
}

}  // namespace tritium::server::comfy
