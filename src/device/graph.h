// Building and running one ggml graph on one device.
//
//   Graph graph(device, "dit.block3");
//   ggml_tensor* x = graph.input("x", values, {hidden, rows});
//   ggml_tensor* y = graph.output("y", ops::linear(graph, layer, x));
//   TRITIUM_TRY(graph.run(cancel));
//   std::vector<float> result = graph.read(y);
#pragma once

#include "device/tensor_pool.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace tritium {

class Graph {
 public:
  // `scope` prefixes the names that observers see: "scope.name".
  Graph(Device& device, std::string scope, std::size_t max_nodes = 4096);

  [[nodiscard]] ggml_context* context() const { return context_.get(); }
  [[nodiscard]] Device& device() const { return device_; }

  // Inputs are copied now and uploaded by run(). Precondition: values.size() == product(ne).
  ggml_tensor* input(const std::string& name, std::span<const float> values, std::initializer_list<std::int64_t> ne);
  ggml_tensor* input_i32(const std::string& name, std::span<const std::int32_t> values);

  // Names an intermediate. Observed devices keep and report it; otherwise its memory may be reused.
  ggml_tensor* name(const std::string& name, ggml_tensor* tensor);
  // Adds a result to the graph; it can be read after run().
  ggml_tensor* output(const std::string& name, ggml_tensor* tensor);
  // Adds a node that must be computed although nothing reads it (writes into persistent tensors).
  void effect(ggml_tensor* tensor);

  // Makes run() fail with code `rejected` when this float32 tensor holds a value that is not finite. One reduction, on the device.
  void watch(ggml_tensor* tensor);

  // A node that runs `work`, with the device's threads or `pieces` of them if that is fewer. `kind` names it in profiles: "int8 product".
  // Null sources at the end are left out.
  using Extents = std::array<std::int64_t, GGML_MAX_DIMS>;
  ggml_tensor* custom(const char* kind, ggml_type type, const Extents& ne, std::initializer_list<ggml_tensor*> sources,
                      ggml_custom_op_t work, std::int64_t pieces, void* user_data);
  static Extents extents(const ggml_tensor* like) { return {like->ne[0], like->ne[1], like->ne[2], like->ne[3]}; }

  // Work of a custom node, in floating-point operations: decides how many threads the graph gets.
  void add_work(double operations) { custom_operations_ += operations; }

  // Keeps an object alive as long as the graph: the user data of custom operations.
  template <class T>
  T* keep(T object) {
    auto owned = std::make_shared<T>(std::move(object));
    kept_.push_back(owned);
    return owned.get();
  }

  // From here on until the graph is gone nobody else uses the device.
  Result<void> run(const CancelToken* cancel = nullptr);
  // The nodes so far; after run() the buffer of each tells which device computed it.
  [[nodiscard]] ggml_cgraph* nodes() const { return graph_; }
  [[nodiscard]] std::vector<float> read(const ggml_tensor* output) const { return download(output); }

 private:
  struct Upload {
    ggml_tensor* tensor;
    std::vector<std::uint8_t> bytes;
  };
  Device& device_;
  std::string scope_;
  ggml_context_ptr context_;
  ggml_cgraph* graph_;
  std::vector<Upload> uploads_;
  std::vector<std::pair<std::string, ggml_tensor*>> observed_;
  std::vector<ggml_tensor*> watched_;  // sums, whole or of parts: not finite if any term is not
  std::vector<std::shared_ptr<void>> kept_;
  double custom_operations_ = 0;
  std::unique_lock<std::recursive_mutex> lock_;
};

}  // namespace tritium
