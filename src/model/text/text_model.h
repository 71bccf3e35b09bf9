// The Qwen3-VL text stack: token ids to the rows that condition the diffusion transformer (spec/text.md §3).
#pragma once

#include "device/params.h"
#include "device/residency/block_store.h"
#include "device/residency/part_budget.h"
#include "model/geometry/vision_rows.h"
#include "model/text/text_config.h"
#include "ops/linear.h"

#include <memory>

namespace tritium {

// What the vision tower saw: the rows of all pictures and of all reference videos, for the pads of each kind in order (§3.4 and §4).
struct VisionInputs {
  VisionPads pads;
  VisionRows images, videos;
};

class TextModel {
 public:
  // Loads everything but the embedding table, of which only the rows a prompt needs are read from the file when it is encoded.
  // Names are official, "model.language_model.…". The part stays open. Layers that do not fit the budget are streamed, with the same
  // results; below one layer: does_not_fit.
  static Result<TextModel> load(Device& device, std::shared_ptr<const WeightPart> part, const TextConfig& config, MatrixPolicy policy,
                                const CancelToken* cancel = nullptr, const LoadProgress& progress = {}, PartBudget budget = {});
  // What a streamed model runs with at the least.
  static Result<std::uint64_t> least_bytes(Device& device, const std::shared_ptr<const WeightPart>& part, const TextConfig& config,
                                           MatrixPolicy policy);

  // Bytes the weights take on the device, after checking names and shapes against the configuration.
  static Result<std::uint64_t> weight_bytes(const WeightPart& part, const TextConfig& config, MatrixPolicy policy);

  // Of each layer, as a slot needs them.
  static std::vector<std::uint64_t> layer_bytes(const WeightPart& part, const TextConfig& config, MatrixPolicy policy);

  // ids [L], positions [L] = (t, h, w) per token -> float32 [L][hidden] row-major, without the final norm.
  // Errors: usage (no tokens, id out of range, more tokens than positions), rejected (values not finite, the layer is named).
  // `progress` counts layers.
  Result<std::vector<float>> encode(std::span<const std::int32_t> ids, std::span<const std::array<std::int32_t, 3>> positions,
                                    const CancelToken* cancel = nullptr,
                                    const std::function<void(int done, int total)>& progress = {}) const;

  // The same with vision rows at the pads. Further errors: failure when rows and pads differ in number, or the rows do not have the
  // width of this model, or there are more deepstack sets than layers.
  Result<std::vector<float>> encode(std::span<const std::int32_t> ids, std::span<const std::array<std::int32_t, 3>> positions,
                                    const VisionInputs& vision, const CancelToken* cancel = nullptr,
                                    const std::function<void(int done, int total)>& progress = {}) const;

  [[nodiscard]] const TextConfig& config() const { return config_; }
  [[nodiscard]] const BlockStore* store() const { return store_.get(); }  // null: resident

 private:
  struct Layer {
    ggml_tensor *input_norm, *post_norm, *q_norm, *k_norm;
    ops::Linear q, k, v, o, gate, up, down;
  };
  // The deepstack sets of a prompt. Token i gets row `row_of_token[i]` of all modalities' rows joined, behind which lies a row of zeros.
  struct Deepstack {
    std::vector<std::int32_t> row_of_token;
    std::vector<std::vector<std::span<const float>>> sets;  // the rows of each modality that has any
  };
  using Positions = std::span<const std::array<std::int32_t, 3>>;
  using Progress = std::function<void(int, int)>;

  TextModel(Device& device, std::shared_ptr<const WeightPart> part, const TextConfig& config)
      : device_(&device), part_(std::move(part)), config_(config), pool_(0) {}
  static std::vector<Layer> declare(ParamLoader& loader, const TextConfig& config);
  static Layer declare_layer(ParamLoader& loader, const TextConfig& config, int index);
  static Result<BlockUnits> units(Device& device, const std::shared_ptr<const WeightPart>& part, const TextConfig& config,
                                  MatrixPolicy policy);
  Result<void> check_prompt(std::span<const std::int32_t> ids, Positions positions) const;
  Result<std::vector<float>> embed(std::span<const std::int32_t> ids) const;
  Result<Deepstack> insert_vision(std::span<const std::int32_t> ids, const VisionInputs& vision, std::span<float> embedded) const;
  Result<std::vector<float>> run_layers(std::span<const float> embedded, Positions positions, const Deepstack& deepstack,
                                        const CancelToken* cancel, const Progress& progress) const;
  Result<void> run_layer(int index, ggml_tensor* state, std::span<const float> angles, const Deepstack& deepstack,
                         const CancelToken* cancel) const;
  ggml_tensor* deepstack_rows(Graph& graph, const Deepstack& deepstack, std::size_t set) const;

  Device* device_;
  std::shared_ptr<const WeightPart> part_;
  TextConfig config_;
  std::shared_ptr<const PartRows> embedding_;  // read row by row
  std::vector<Layer> layers_;                  // empty: streamed
  TensorPool pool_;
  std::unique_ptr<BlockStore> store_;
};

}  // namespace tritium
