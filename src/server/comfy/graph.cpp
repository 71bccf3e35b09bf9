#include "server/comfy/graph.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::server::comfy {
namespace {

constexpr std::size_t kMaxNodes = 2000;

PromptError invalid(std::string type, std::string message, std::string details) {
  PromptError out;
  out.type = std::move(type);
  out.message = std::move(message);
  out.details = std::move(details);
  return out;
}

// "group.name" stays; {"group": {...}} of a series is opened.
Json flattened(const NodeSpec& spec, const Json& inputs) {
  Json out = Json::object();
  for (const auto& [name, value] : inputs.items()) {
    const InputSpec* known = spec.input(name);
    if (known != nullptr && known->kind == InputKind::series && value.is_object()) {
      for (const auto& [inner, each] : value.items()) out[name + "." + inner] = each;
    } else {
      out[name] = value;
    }
  }
  return out;
}

std::string title_of(const Json& node) {
  const auto meta = node.find("_meta");
  if (meta == node.end() || !meta->is_object()) return {};
  const auto title = meta->find("title");
  return title != meta->end() && title->is_string() ? title->get<std::string>() : std::string();
}

}  // namespace

std::optional<Link> as_link(const Json& value) {
  if (!value.is_array() || value.size() != 2 || !value[1].is_number_integer()) return std::nullopt;
  const auto slot = value[1].get<std::int64_t>();
  if (slot < 0 || slot > 1000) return std::nullopt;
  if (value[0].is_string()) return Link{value[0].get<std::string>(), static_cast<int>(slot)};
  if (value[0].is_number_integer()) return Link{value[0].dump(), static_cast<int>(slot)};
  return std::nullopt;
}

const Json* Node::input(const std::string& name) const {
  const auto found = inputs.find(name);
  return found == inputs.end() || found->is_null() ? nullptr : &*found;
}

const Node* Graph::find(const std::string& id) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& each) { return each.id == id; });
  return found == nodes.end() ? nullptr : &*found;
}

void Problems::add(const Node& node, Problem problem) {
  ++met_;
  auto entry = std::find_if(nodes_.begin(), nodes_.end(), [&](const Entry& each) { return each.id == node.id; });
  if (entry == nodes_.end()) entry = nodes_.insert(nodes_.end(), Entry{node.id, node.class_type, {}, {}, false});
  entry->fresh = true;
  const auto same = [&](const Problem& each) {
    return each.type == problem.type && each.input == problem.input && each.details == problem.details;
  };
  if (std::none_of(entry->problems.begin(), entry->problems.end(), same)) entry->problems.push_back(std::move(problem));
}

void Problems::blame(const std::string& output) {
  for (Entry& entry : nodes_) {
    if (entry.fresh && std::find(entry.outputs.begin(), entry.outputs.end(), output) == entry.outputs.end())
      entry.outputs.push_back(output);
    entry.fresh = false;
  }
}

Json Problems::to_json() const {
  Json out = Json::object();
  for (const Entry& entry : nodes_) {
    Json errors = Json::array();
    for (const Problem& each : entry.problems) {
      Json extra = Json::object();
      if (!each.input.empty()) extra["input_name"] = each.input;
      if (!each.received.is_null()) extra["received_value"] = each.received;
      errors.push_back({{"type", each.type}, {"message", each.message}, {"details", each.details}, {"extra_info", extra}});
    }
    out[entry.id] = {{"errors", errors}, {"dependent_outputs", entry.outputs}, {"class_type", entry.class_type}};
  }
  return out;
}

Json PromptError::to_json() const {
  return {{"error", {{"type", type}, {"message", message}, {"details", details}, {"extra_info", extra}}}, {"node_errors", node_errors}};
}

ReadGraph read_graph(const Json& prompt) {
  ReadGraph out;
  if (!prompt.is_object()) {
    const bool editor = prompt.is_array();
    out.error = invalid("invalid_prompt", "Cannot execute because the prompt is not an object of nodes.",
                        editor ? "an array was given; export the workflow in API form" : "");
    return out;
  }
  if (prompt.size() > kMaxNodes) {
    out.error = invalid("invalid_prompt", "Cannot execute because the prompt has too many nodes.",
                        fmt::format("{} nodes; allowed are {}", prompt.size(), kMaxNodes));
    return out;
  }
  if (prompt.contains("nodes") && prompt.contains("links")) {
    out.error = invalid("invalid_prompt", "Cannot execute because this is a workflow of the editor, not a prompt.",
                        "export it in API form (Workflow > Export (API))");
    return out;
  }
  Json unknown = Json::object();
  std::vector<std::string> names;
  for (const auto& [id, given] : prompt.items()) {
    const auto class_type = given.is_object() ? given.find("class_type") : given.end();
    if (!given.is_object() || class_type == given.end() || !class_type->is_string()) {
      out.error =
          invalid("invalid_prompt", "Cannot execute because a node is missing the class_type property.", fmt::format("Node ID '#{}'", id));
      return out;
    }
    Node node{id, class_type->get<std::string>(), title_of(given), nullptr, Json::object()};
    node.spec = find_node(node.class_type);
    if (node.spec == nullptr) {
      names.push_back(fmt::format("'{}' (#{})", node.class_type, id));
      unknown[id] = {
          {"errors", Json::array({{{"type", "missing_node_type"},
                                   {"message", fmt::format("Node '{}' is not known to this server", node.class_type)},
                                   {"details", fmt::format("Node ID '#{}'; GET /object_info lists the nodes that are", id)},
                                   {"extra_info", {{"node_id", id}, {"class_type", node.class_type}, {"node_title", node.title}}}}})},
          {"dependent_outputs", Json::array()},
          {"class_type", node.class_type}};
      continue;
    }
    const auto inputs = given.find("inputs");
    if (inputs != given.end() && inputs->is_object()) node.inputs = flattened(*node.spec, *inputs);
    out.graph.nodes.push_back(std::move(node));
  }
  if (!unknown.empty()) {
    out.error = invalid("missing_node_type", fmt::format("Nodes that this server does not have: {}", fmt::join(names, ", ")),
                        "it runs MiniMax-H3 workflows; GET /object_info lists its nodes");
    const auto first = unknown.begin();
    out.error->extra = first.value()["errors"][0]["extra_info"];
    out.error->node_errors = std::move(unknown);
  }
  return out;
}

}  // namespace tritium::server::comfy
