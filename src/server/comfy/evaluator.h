// Computes what the inputs of a graph's nodes are, from an output node backwards: only what is reached is looked at.
#pragma once

#include "server/comfy/values.h"

#include <tritium/result.h>

#include <functional>
#include <map>
#include <set>

namespace tritium::server::comfy {

// What lies outside a graph. Names are those of clients; they are looked up in lists, never opened as paths.
struct GraphEnvironment {
  // An uploaded file or an earlier clip: "a.png", "folder/a.png", "a.mp4 [output]". Error: not there.
  std::function<Result<std::filesystem::path>(const std::string& name)> find_input;
  // Nothing: no such LoRA.
  std::function<std::optional<std::filesystem::path>(const std::string& name)> find_lora;
  // By folder as ComfyUI names them ("diffusion_models", "text_encoders", "vae", "loras"): what the server has.
  std::map<std::string, std::vector<std::string>> names;
};

class Evaluator {
 public:
  Evaluator(const Graph& graph, const GraphEnvironment& environment, Problems& problems, std::vector<Note>& notes)
      : graph_(graph), environment_(environment), problems_(problems), notes_(notes) {}

  // The output of a node; nothing after a problem, which is recorded.
  std::optional<Value> output(const Link& link);

  // Nodes in the order in which they were finished.
  [[nodiscard]] const std::vector<std::string>& order() const { return order_; }

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const GraphEnvironment& environment() const { return environment_; }
  [[nodiscard]] Problems& problems() { return problems_; }
  void note(Note note);

 private:
  std::optional<std::vector<Value>> run(const Node& node);

  const Graph& graph_;
  const GraphEnvironment& environment_;
  Problems& problems_;
  std::vector<Note>& notes_;
  std::map<std::string, std::optional<std::vector<Value>>> done_;
  std::set<std::string> running_;
  std::vector<std::string> order_;
  int depth_ = 0;
};

// The inputs of one node. Every function that finds a problem records it and leaves failed() true; the value is then of no use.
class NodeInputs {
 public:
  NodeInputs(Evaluator& evaluator, const Node& node) : evaluator_(evaluator), node_(node) {}

  std::int64_t integer(const std::string& name);
  std::uint64_t seed(const std::string& name);
  double number(const std::string& name);
  bool boolean(const std::string& name);
  std::string text(const std::string& name);   // also of choices and names of files
  Number any_number(const std::string& name);  // of a link or a literal, as it is

  // A linked value of this type. Required: missing is a problem.
  template <class T>
  std::optional<T> link(const std::string& name) {
    return taken<T>(name, true);
  }
  template <class T>
  std::optional<T> link_if(const std::string& name) {
    return taken<T>(name, false);
  }
  std::optional<Value> linked(const std::string& name, bool required);

  // Names of the inputs of a series that are there, by their number.
  std::vector<std::string> series(const std::string& name);

  // "custom_validation_failed" at an input.
  void refuse(const std::string& input, const std::string& why);
  void note(const std::string& input, const std::string& from, const std::string& to, const std::string& reason);
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] const Node& node() const { return node_; }
  Evaluator& evaluator() { return evaluator_; }

 private:
  template <class T>
  std::optional<T> taken(const std::string& name, bool required) {
    auto value = linked(name, required);
    if (!value) return std::nullopt;
    if (auto* found = std::get_if<T>(&*value)) return std::move(*found);
    mismatch(name, *value);
    return std::nullopt;
  }
  const InputSpec& spec(const std::string& name) const;
  // A literal, a linked primitive, or the standard; nothing after a problem.
  std::optional<Value> value(const InputSpec& spec, const std::string& name);
  void problem(std::string type, std::string message, std::string details, const std::string& input, Json received = nullptr);
  void mismatch(const std::string& name, const Value& value);
  void check_range(const InputSpec& spec, double value);

  Evaluator& evaluator_;
  const Node& node_;
  bool failed_ = false;
};

// The name of a value's type as ComfyUI calls it: "MODEL".
std::string type_name(const Value& value);

// What a node gives at each of its outputs; nothing when the inputs failed.
std::optional<std::vector<Value>> run_loader(NodeInputs& in);
std::optional<std::vector<Value>> run_h3(NodeInputs& in);
std::optional<std::vector<Value>> run_sampling(NodeInputs& in);
std::optional<std::vector<Value>> run_decoding(NodeInputs& in);
std::optional<std::vector<Value>> run_values(NodeInputs& in);
// Pictures and sound of one clip at the rate of input `rate`, of a node with "images" and perhaps "audio".
std::optional<VideoValue> combine(NodeInputs& in, const std::string& rate);

using NodeFunction = std::optional<std::vector<Value>> (*)(NodeInputs&);
// Nothing: an output node, which gives nothing that can be linked here.
NodeFunction function_of(const std::string& class_type);

}  // namespace tritium::server::comfy
