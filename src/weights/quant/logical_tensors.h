// The tensors a model part asks for, whatever way the file stores them: "blocks.0.attn.qkv_proj.weight" is a matrix [N, K], plain or
// quantized, and the markers, scales and tables it is made of do not appear under names of their own (spec/weights.md §3).
#pragma once

#include "weights/checkpoint.h"
#include "weights/quant/description.h"

#include <map>

namespace tritium {

struct LogicalTensor {
  std::string name;                       // without "model.diffusion_model." or "diffusion_model."
  std::vector<std::int64_t> shape;        // outermost first, unpacked: [N, K] of a quantized matrix
  std::optional<QuantDescription> quant;  // none: plain, of the stored dtype
  const TensorInfo* stored = nullptr;     // the values, or the codes of a quantized matrix
  std::uint64_t bytes = 0;                // in the file, with everything that belongs to it
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::string_view format_name() const { return quant ? quant_format_name(quant->format) : dtype_name(stored->dtype); }
};

// The path of the file that has this tensor, for errors; empty if there is none.
std::string file_holding(const Checkpoint& checkpoint, std::string_view tensor);

class LogicalTensors {
 public:
  // Reads markers and metadata and checks every quantized layer against them, from headers and markers alone. All layers that cannot
  // be used are listed in one error (code model) that names the file. `checkpoint` must stay where it is while this is in use.
  static Result<LogicalTensors> open(const Checkpoint& checkpoint);

  // nullptr when there is no such tensor.
  [[nodiscard]] const LogicalTensor* find(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, LogicalTensor, std::less<>>& all() const { return tensors_; }
  [[nodiscard]] const Checkpoint& checkpoint() const { return *checkpoint_; }
  [[nodiscard]] const std::string& prefix() const { return prefix_; }  // the one that was stripped; empty: none

  // What is odd but harmless, a sentence each: descriptions and side tensors without a weight.
  [[nodiscard]] const std::vector<std::string>& notices() const { return notices_; }

  // The whole tensor widened to float32, quantized or not, in the basis the model computes in. Errors: MatrixReader's.
  Result<std::vector<float>> read_f32(const LogicalTensor& tensor) const;

 private:
  friend class LogicalTensorsBuilder;
  const Checkpoint* checkpoint_ = nullptr;
  std::string prefix_;
  std::map<std::string, LogicalTensor, std::less<>> tensors_;
  std::vector<std::string> notices_;
};

}  // namespace tritium
