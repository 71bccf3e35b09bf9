// The nodes of ComfyUI that a graph may be made of here, with their inputs: what a prompt is checked against, where omitted inputs get
// their values, and what /object_info says. Names, types and ranges are those of ComfyUI 0.35; choices are narrowed to what is honoured.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tritium::server::comfy {

enum class InputKind {
  integer,
  number,
  boolean,
  text,
  choice,  // one of `options`
  file,    // a name of a list that changes: models, LoRAs, uploaded files
  link,    // only the output of another node, of type `type`
  series,  // "name.prefix0", "name.prefix1", ...: links of type `type`, as many as are given
};

struct InputSpec {
  std::string name;
  InputKind kind = InputKind::link;
  std::string type;  // of a link: "MODEL"; several: "FLOAT,INT"
  bool required = true;
  nlohmann::ordered_json standard{};  // taken when the input is omitted; null: none
  double least = 0, most = 0, step = 0;
  std::vector<std::string> options{};
  std::string list{};  // of a file: "diffusion_models", "text_encoders", "vae", "loras", "images", "videos", "sounds"
  std::string prefix{};
  int count = 0;        // of a series, at most
  std::string tip{};    // shown by clients
  bool hidden = false;  // accepted, but not shown
};

struct OutputSpec {
  std::string type, name;
};

struct NodeSpec {
  std::string name, display, category, description;
  bool is_output = false;
  bool new_style = false;  // how /object_info writes choices
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;

  [[nodiscard]] const InputSpec* input(std::string_view name) const;
};

const std::vector<NodeSpec>& node_table();
const NodeSpec* find_node(std::string_view class_type);

// Building blocks of the table.
InputSpec link(std::string name, std::string type);
InputSpec integer(std::string name, std::int64_t standard, double least, double most, double step = 1);
InputSpec number(std::string name, double standard, double least, double most, double step = 0.01);
InputSpec boolean(std::string name, bool standard);
InputSpec text(std::string name);                        // required
InputSpec text(std::string name, std::string standard);  // omitted: this
InputSpec choice(std::string name, std::vector<std::string> options, std::string standard);
InputSpec file(std::string name, std::string list);
InputSpec series(std::string name, std::string prefix, int count, std::string type);
InputSpec optional(InputSpec input);
InputSpec hidden(InputSpec input);
InputSpec tip(InputSpec input, std::string words);

// Parts of the table.
void add_loader_nodes(std::vector<NodeSpec>& table);
void add_h3_nodes(std::vector<NodeSpec>& table);
void add_sampling_nodes(std::vector<NodeSpec>& table);
void add_output_nodes(std::vector<NodeSpec>& table);
void add_value_nodes(std::vector<NodeSpec>& table);

}  // namespace tritium::server::comfy
