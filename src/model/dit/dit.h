// The H3 diffusion transformer: one evaluation gives the velocities of video and audio (spec/dit.md §4).
#pragma once

#include "model/dit/packing.h"
#include "model/dit/weights.h"
#include "ops/norm.h"
#include "ops/rope.h"

#include <map>
#include <mutex>

namespace tritium {

// Modulation of a list of timesteps: per block [hidden, 6, 3·times] on the block's device, final layer [hidden, 2, times].
struct ModulationTables {
  std::vector<float> times;
  std::map<float, int> index;
  std::vector<ggml_tensor*> blocks;
  ggml_tensor* final_layer = nullptr;
  std::vector<TensorPool> pools;  // one per shard
};

// A loaded model, resident or streamed within budgets, on one device or split by blocks over several: with the same results. The devices
// outlive it.
class Dit {
 public:
  static Result<std::unique_ptr<Dit>> load(std::span<const DitShare> shares, std::shared_ptr<const WeightPart> part,
                                           const DitConfig& config, MatrixPolicy policy, const CancelToken* cancel = nullptr,
                                           const LoadProgress& progress = {});
  // On one device.
  static Result<std::unique_ptr<Dit>> load(Device& device, std::shared_ptr<const WeightPart> part, const DitConfig& config,
                                           MatrixPolicy policy, const CancelToken* cancel = nullptr, const LoadProgress& progress = {},
                                           PartBudget budget = {});

  // Of everything outside the blocks.
  [[nodiscard]] Device& device() const { return *weights_.shards.front().device; }
  [[nodiscard]] const DitConfig& config() const { return config_; }
  [[nodiscard]] const WeightPart& part() const { return *part_; }
  [[nodiscard]] bool streamed() const;
  // Streams more of what is kept in the host's memory, see BlockStore::give_back(). Between evaluations or during them.
  std::uint64_t give_back(std::uint64_t bytes) const;
  [[nodiscard]] const DitWeights& weights() const { return weights_; }
  // For adapters: modulation computed before is forgotten.
  [[nodiscard]] DitWeights& change_weights();

  // The tables last computed, if they are of these times: those of a schedule are the same in every request. Thread safe.
  [[nodiscard]] std::shared_ptr<const ModulationTables> known_modulation(std::span<const float> times) const;
  void keep_modulation(std::shared_ptr<const ModulationTables> tables) const;

 private:
  Dit(std::shared_ptr<const WeightPart> part, const DitConfig& config, DitWeights weights)
      : part_(std::move(part)), config_(config), weights_(std::move(weights)) {}
  std::shared_ptr<const WeightPart> part_;
  DitConfig config_;
  DitWeights weights_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const ModulationTables> modulation_;
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

  // Data-ward velocities of the target rows at evaluation `step`, for target rows `x` (x0 = x + sigma·v). `progress` counts blocks that
  // run.
  Result<DitRows> evaluate(int step, const DitRows& x, const CancelToken* cancel = nullptr, const BlockProgress& progress = {});

  // What follows makes a run cheaper and its results other ones (reduced.cpp).

  // How much each block adds: the mean magnitude of both its gates, over the distinct timesteps of the run and the three modalities.
  Result<std::vector<double>> gate_magnitudes(const CancelToken* cancel = nullptr);
  // Only these blocks run from now on. Precondition: at least one, increasing.
  void run_only(std::vector<int> blocks);
  // From now on every evaluate() keeps its residual: what the blocks added to the target rows. Error: does_not_fit.
  Result<void> keep_residual();
  // As evaluate(), but in place of running the blocks the residual of the last evaluate() is added. Precondition: there was one since
  // keep_residual().
  Result<DitRows> evaluate_with_residual(int step, const DitRows& x, const CancelToken* cancel = nullptr);

 private:
  // What a run has on one device of the model.
  struct Place {
    TensorPool pool{0};
    ggml_tensor* state = nullptr;           // [hidden, rows]
    ggml_tensor* variant_of_row = nullptr;  // int32 [rows]: row of the block tables
    ops::RotaryTable rotary;
  };

  DitRun(const Dit& dit, PackedLayout layout, std::vector<RowTimesteps> steps);
  [[nodiscard]] const DitConfig& config() const { return dit_->config(); }
  [[nodiscard]] Device& device() const { return dit_->device(); }
  Result<void> check_sizes(std::span<const float> text, const DitRows& conditions) const;
  Result<void> allocate_state();
  Result<Place> make_place(Device& device, const ops::RotaryValues& values) const;
  Result<void> refine_text(std::span<const float> text, const CancelToken* cancel);
  Result<void> project_conditions(const DitRows& conditions, const CancelToken* cancel);
  [[nodiscard]] std::vector<float> modulation_times(int first_step) const;
  Result<void> prepare_modulation(int first_step, const CancelToken* cancel);
  Result<std::shared_ptr<const ModulationTables>> compute_modulation(std::vector<float> times, const CancelToken* cancel) const;
  [[nodiscard]] std::vector<float> time_features(std::span<const float> times) const;
  Result<std::vector<float>> time_embedding(std::span<const float> times, const CancelToken* cancel) const;
  void hand_over(std::size_t from, std::size_t to);
  void select_modulation(const RowTimesteps& timesteps);
  Result<void> check_step(int step) const;
  void expect_blocks(int passes);
  [[nodiscard]] ggml_tensor* target_rows(const Graph& graph) const;  // of the state on the first device
  Result<void> begin_residual(int step, const CancelToken* cancel);
  Result<void> end_residual(int step, const CancelToken* cancel);
  Result<void> embed(int step, const DitRows& x, const CancelToken* cancel);
  Result<void> run_blocks(int step, const CancelToken* cancel, const BlockProgress& progress);
  Result<void> run_block(int step, int block, const Place& place, const CancelToken* cancel);
  Result<DitRows> finish(int step, const CancelToken* cancel);

  const Dit* dit_;
  PackedLayout layout_;
  std::vector<RowTimesteps> steps_;
  std::shared_ptr<const ModulationTables> modulation_;
  std::vector<int> blocks_;                 // that run
  std::vector<Place> places_;               // one per shard
  TensorPool pool_{0};                      // on the first device
  ggml_tensor* text_state_ = nullptr;       // [hidden, text rows]
  ggml_tensor* condition_state_ = nullptr;  // [hidden, condition rows], null without conditions
  ggml_tensor* time_of_target_ = nullptr;   // int32 [target rows]: row of the final table
  TensorPool residual_pool_{0};             // on the first device
  ggml_tensor* residual_ = nullptr;         // [hidden, target rows], null: not kept
};

}  // namespace tritium
