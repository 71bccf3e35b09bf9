#include "server/comfy/node_table.h"

#include <algorithm>
#include <utility>

namespace tritium::server::comfy {

const InputSpec* NodeSpec::input(std::string_view wanted) const {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const InputSpec& each) { return each.name == wanted; });
  return found == inputs.end() ? nullptr : &*found;
}

const std::vector<NodeSpec>& node_table() {
  static const std::vector<NodeSpec> table = [] {
    std::vector<NodeSpec> out;
    add_loader_nodes(out);
    add_h3_nodes(out);
    add_sampling_nodes(out);
    add_output_nodes(out);
    add_value_nodes(out);
    return out;
  }();
  return table;
}

const NodeSpec* find_node(std::string_view class_type) {
  const auto& table = node_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const NodeSpec& each) { return each.name == class_type; });
  return found == table.end() ? nullptr : &*found;
}

InputSpec link(std::string name, std::string type) {
  InputSpec out;
  out.name = std::move(name);
  out.type = std::move(type);
  return out;
}

InputSpec integer(std::string name, std::int64_t standard, double least, double most, double step) {
  InputSpec out = link(std::move(name), "INT");
  out.kind = InputKind::integer;
  out.standard = standard;
  out.least = least;
  out.most = most;
  out.step = step;
  return out;
}

InputSpec number(std::string name, double standard, double least, double most, double step) {
  InputSpec out = link(std::move(name), "FLOAT");
  out.kind = InputKind::number;
  out.standard = standard;
  out.least = least;
  out.most = most;
  out.step = step;
  return out;
}

InputSpec boolean(std::string name, bool standard) {
  InputSpec out = link(std::move(name), "BOOLEAN");
  out.kind = InputKind::boolean;
  out.standard = standard;
  return out;
}

InputSpec text(std::string name) {
  InputSpec out = link(std::move(name), "STRING");
  out.kind = InputKind::text;
  return out;
}

InputSpec text(std::string name, std::string standard) {
  InputSpec out = text(std::move(name));
  out.standard = std::move(standard);
  return out;
}

InputSpec choice(std::string name, std::vector<std::string> options, std::string standard) {
  InputSpec out = link(std::move(name), "COMBO");
  out.kind = InputKind::choice;
  out.options = std::move(options);
  out.standard = std::move(standard);
  return out;
}

InputSpec file(std::string name, std::string list) {
  InputSpec out = link(std::move(name), "COMBO");
  out.kind = InputKind::file;
  out.list = std::move(list);
  return out;
}

InputSpec series(std::string name, std::string prefix, int count, std::string type) {
  InputSpec out = link(std::move(name), std::move(type));
  out.kind = InputKind::series;
  out.prefix = std::move(prefix);
  out.count = count;
  out.required = false;
  return out;
}

InputSpec optional(InputSpec input) {
  input.required = false;
  return input;
}

InputSpec hidden(InputSpec input) {
  input.required = false;
  input.hidden = true;
  return input;
}

InputSpec tip(InputSpec input, std::string words) {
  input.tip = std::move(words);
  return input;
}

}  // namespace tritium::server::comfy
