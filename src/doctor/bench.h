// One operation at a time on one device: its tensors, its graph, and where the device really computed it.
#pragma once

#include "device/graph.h"
#include "doctor/values.h"
#include "ops/attention.h"
#include "ops/conv3d.h"
#include "ops/group_norm.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/pointwise_snake.h"
#include "ops/rope.h"
#include "ops/snake.h"
#include "ops/strided_conv1d.h"

#include <functional>
#include <set>

namespace tritium::doctor {

// The operations that are looked at. Tests put wrong ones in their place.
struct Operations {
  decltype(&ops::linear) linear = ops::linear;
  decltype(&ops::silu_gate) silu_gate = ops::silu_gate;
  decltype(&ops::attention) attention = ops::attention;
  decltype(&ops::rms_norm) rms_norm = ops::rms_norm;
  decltype(&ops::layer_norm) layer_norm = ops::layer_norm;
  decltype(&ops::modulate) modulate = ops::modulate;
  decltype(&ops::gated_add) gated_add = ops::gated_add;
  decltype(&ops::rotate) rotate = ops::rotate;
  decltype(&ops::conv3d) conv3d = ops::conv3d;
  decltype(&ops::group_norm) group_norm = ops::group_norm;
  decltype(&ops::conv1d) conv1d = ops::conv1d;
  decltype(&ops::transposed_conv1d) transposed_conv1d = ops::transposed_conv1d;
  decltype(&ops::strided_conv1d) strided_conv1d = ops::strided_conv1d;
  decltype(&ops::alias_free_snake) alias_free_snake = ops::alias_free_snake;
  decltype(&ops::pointwise_snake) pointwise_snake = ops::pointwise_snake;
};

class Bench {
 public:
  explicit Bench(Device& device, const Operations& operations = {}) : device_(device), operations_(operations) {}

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] const Operations& operations() const { return operations_; }

  // Tensors on the device, kept as long as the bench; `ne` innermost first. Types: F32, BF16. Error does_not_fit.
  using Shape = std::initializer_list<std::int64_t>;
  Result<ggml_tensor*> tensor(ggml_type type, Shape ne, const Values& values);
  Result<ggml_tensor*> tensor(Shape ne, const Values& values) { return tensor(GGML_TYPE_F32, ne, values); }
  Result<ggml_tensor*> tensor(Shape ne, std::span<const float> values);
  // Nothing is written: on the CPU, pages that are never touched take no memory.
  Result<ggml_tensor*> untouched(Shape ne);

  // Builds and runs a graph and downloads its result, or lets `read` look at it on the device.
  using Build = std::function<ggml_tensor*(Graph&)>;
  Result<std::vector<float>> run(const Build& build);
  Result<void> run(const Build& build, const std::function<void(const ggml_tensor*)>& read);

  [[nodiscard]] bool used_kernel() const { return used_kernel_; }                      // a hand-written one, in any run
  [[nodiscard]] const std::set<std::string>& elsewhere() const { return elsewhere_; }  // what the device left to the CPU
  [[nodiscard]] double seconds() const { return seconds_; }                            // of the last run, without building it
  void note(std::string text) { note_ = std::move(text); }
  [[nodiscard]] const std::string& noted() const { return note_; }

 private:
  Result<ggml_tensor*> allocated(ggml_type type, Shape ne);
  void look_at(const Graph& graph);

  Device& device_;
  const Operations operations_;
  std::vector<std::unique_ptr<TensorPool>> pools_;
  bool used_kernel_ = false;
  std::set<std::string> elsewhere_;
  double seconds_ = 0;
  std::string note_;
};

// `count` values of a float32 tensor from element `first` on.
std::vector<float> download_part(const ggml_tensor* tensor, std::int64_t first, std::int64_t count);

}  // namespace tritium::doctor
