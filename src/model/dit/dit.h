// The H3 diffusion transformer: one evaluation gives the velocities of video and audio (spec/dit.md §4).
#pragma once

#include "model/dit/packing.h"
#include "model/dit/weights.h"
#include "ops/norm.h"
#include "ops/rope.h"

#include <map>

namespace tritium {

// A loaded model. The device outlives it.
class Dit {
 public:
  static Result<std::unique_ptr<Dit>> load(Device& device, const WeightPart& part, const DitConfig& config, MatrixPolicy policy,
                                           const CancelToken* cancel = nullptr, const LoadProgress& progress = {});

  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] const DitConfig& config() const { return config_; }
  [[nodiscard]] const DitWeights& weights() const { return weights_; }
  [[nodiscard]] DitWeights& weights() { return weights_; }  // for adapters

 private:
  Dit(Device& device, const DitConfig& config, DitWeights weights) : device_(&device), config_(config), weights_(std::move(weights)) {}
  Device* device_;
  DitConfig config_;
  DitWeights weights_;
};

// Rows of the two streams: video [rows][video_features], audio [rows][audio_features], row-major.
struct DitRows {
  std::vector<float> video, audio;
};

using BlockProgress = std::function<void(int blocks_done, int blocks_total)>;

// One request on one model. Everything that does not change from step to step is computed once: refined text, projected condition
// rows, rotary tables, and the modulation of every distinct timestep.
class DitRun {
 public:
  // `text` [text rows][text_dim]; `conditions`: rows of keyframes and references in packed order, noise already mixed in (empty for
  // text-to-video); `steps`: the timesteps of each evaluation (assign_timesteps). Errors: failure for sizes that do not fit the layout,
  // does_not_fit, rejected (not finite), interrupted.
  static Result<DitRun> begin(const Dit& dit, PackedLayout layout, std::span<const float> text, const DitRows& conditions,
                              std::vector<RowTimesteps> steps, const CancelToken* cancel = nullptr);

  // Data-ward velocities of the target rows at evaluation `step`, for target rows `x` (x0 = x + sigma·v).
  Result<DitRows> evaluate(int step, const DitRows& x, const CancelToken* cancel = nullptr, const BlockProgress& progress = {});

 private:
  // Modulation of a set of timesteps: per block [hidden, 6, 3·times], final layer [hidden, 2, times].
  struct ModulationTables {
    std::map<float, int> index;
    std::vector<ggml_tensor*> blocks;
    ggml_tensor* final_layer = nullptr;
    TensorPool pool{0};
  };

  DitRun(const Dit& dit, PackedLayout layout, std::vector<RowTimesteps> steps);
  [[nodiscard]] const DitConfig& config() const { return dit_->config(); }
  [[nodiscard]] Device& device() const { return dit_->device(); }
  Result<void> check_sizes(std::span<const float> text, const DitRows& conditions) const;
  Result<void> allocate_state();
  Result<void> refine_text(std::span<const float> text, const CancelToken* cancel);
  Result<void> project_conditions(const DitRows& conditions, const CancelToken* cancel);
  Result<void> compute_modulation(int first_step, const CancelToken* cancel);
  [[nodiscard]] std::vector<float> time_features(std::span<const float> times) const;
  Result<std::vector<float>> time_embedding(std::span<const float> times, const CancelToken* cancel) const;
  void select_modulation(const RowTimesteps& timesteps);
  Result<void> embed(int step, const DitRows& x, const CancelToken* cancel);
  Result<void> run_block(int step, int block, const CancelToken* cancel);
  Result<DitRows> finish(int step, const CancelToken* cancel);

  const Dit* dit_;
  PackedLayout layout_;
  std::vector<RowTimesteps> steps_;
  ModulationTables modulation_;
  TensorPool pool_{0};
  ggml_tensor* state_ = nullptr;            // [hidden, rows]
  ggml_tensor* text_state_ = nullptr;       // [hidden, text rows]
  ggml_tensor* condition_state_ = nullptr;  // [hidden, condition rows], null without conditions
  ops::RotaryTable rotary_;
  ggml_tensor* variant_of_row_ = nullptr;  // int32 [rows]: row of the block tables
  ggml_tensor* time_of_target_ = nullptr;  // int32 [target rows]: row of the final table
};

}  // namespace tritium
