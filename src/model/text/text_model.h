// The Qwen3-VL text stack: token ids to the rows that condition the diffusion transformer (spec/text.md §3).
#pragma once

#include "device/params.h"
#include "model/text/text_config.h"
#include "ops/linear.h"

#include <memory>

namespace tritium {

class TextModel {
 public:
  // Loads everything but the embedding table, of which only the rows a prompt needs are read from the file when it is encoded.
  // Accepts the official names and those of single-file repacks. `checkpoint` stays open.
  static Result<TextModel> load(Device& device, std::shared_ptr<const Checkpoint> checkpoint, const TextConfig& config, MatrixPrecision precision,
                                const CancelToken* cancel = nullptr, const LoadProgress& progress = {});

  // Bytes the weights take on the device, after checking names and shapes against the configuration.
  static Result<std::uint64_t> weight_bytes(const Checkpoint& checkpoint, const TextConfig& config, MatrixPrecision precision);

  // ids [L], positions [L] = (t, h, w) per token -> float32 [L][hidden] row-major, without the final norm.
  // Errors: usage (no tokens, id out of range, more tokens than positions), rejected (values not finite, the layer is named).
  // `progress` counts layers.
  Result<std::vector<float>> encode(std::span<const std::int32_t> ids, std::span<const std::array<std::int32_t, 3>> positions,
                                    const CancelToken* cancel = nullptr, const std::function<void(int done, int total)>& progress = {}) const;

  [[nodiscard]] const TextConfig& config() const { return config_; }

 private:
  struct Layer {
    ggml_tensor *input_norm, *post_norm, *q_norm, *k_norm;
    ops::Linear q, k, v, o, gate, up, down;
  };
  TextModel(Device& device, std::shared_ptr<const Checkpoint> checkpoint, const TextConfig& config) : device_(&device), checkpoint_(std::move(checkpoint)), config_(config), pool_(0) {}
  static Result<std::string> name_prefix(const Checkpoint& checkpoint);
  static std::vector<Layer> declare(ParamLoader& loader, const TextConfig& config, const std::string& prefix);
  Result<std::vector<float>> embed(std::span<const std::int32_t> ids) const;
  Result<void> run_layer(int index, ggml_tensor* state, std::span<const float> angles, const CancelToken* cancel) const;

  Device* device_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  TextConfig config_;
  std::string prefix_;
  std::vector<Layer> layers_;
  TensorPool pool_;
};

}  // namespace tritium
