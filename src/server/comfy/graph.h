// A prompt in ComfyUI's API form, read and checked node by node; what is wrong with it in the words of ComfyUI.
#pragma once

#include "server/comfy/node_table.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tritium::server::comfy {

using Json = nlohmann::ordered_json;

struct Link {
  std::string node;
  int slot = 0;
};
std::optional<Link> as_link(const Json& value);  // ["12", 0]

struct Node {
  std::string id, class_type, title;
  const NodeSpec* spec = nullptr;
  Json inputs;  // an object; "group.name" and {"group": {"name": ...}} both appear as "group.name"

  [[nodiscard]] const Json* input(const std::string& name) const;  // nullptr when it is omitted or null
};

struct Graph {
  std::vector<Node> nodes;  // in the order of the document
  [[nodiscard]] const Node* find(const std::string& id) const;
};

// What is wrong with an input, or with a whole node.
struct Problem {
  std::string type, message, details, input;
  Json received;  // the value, where there is one
};

// Problems of nodes, as ComfyUI's "node_errors".
class Problems {
 public:
  void add(const Node& node, Problem problem);
  // Nodes that got a problem since the last call, or have one and are named again, belong to this output.
  void blame(const std::string& output);
  [[nodiscard]] bool empty() const { return nodes_.empty(); }
  [[nodiscard]] std::size_t met() const { return met_; }  // how often add() was called
  [[nodiscard]] Json to_json() const;

 private:
  struct Entry {
    std::string id, class_type;
    std::vector<Problem> problems;
    std::vector<std::string> outputs;
    bool fresh = false;
  };
  std::vector<Entry> nodes_;
  std::size_t met_ = 0;
};

// The answer to a prompt that cannot be run.
struct PromptError {
  std::string type, message, details;
  Json extra = Json::object();
  Json node_errors = Json::object();
  [[nodiscard]] Json to_json() const;
};

// Every node is known and has a class; inputs are not looked at yet.
struct ReadGraph {
  Graph graph;
  std::optional<PromptError> error;
};
ReadGraph read_graph(const Json& prompt);

}  // namespace tritium::server::comfy
