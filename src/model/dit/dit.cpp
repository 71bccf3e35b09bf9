#include "model/dit/dit.h"

#include "base/try.h"
#include "model/dit/block.h"
#include "ops/norm.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {

Result<std::unique_ptr<Dit>> Dit::load(std::span<const DitShare> shares, std::shared_ptr<const WeightPart> part, const DitConfig& config,
                                       MatrixPolicy policy, const CancelToken* cancel, const LoadProgress& progress) {
  TRITIUM_TRY_ASSIGN(DitWeights weights, load_dit_weights(shares, part, config, policy, cancel, progress));
  return std::unique_ptr<Dit>(new Dit(std::move(part), config, std::move(weights)));
}

Result<std::unique_ptr<Dit>> Dit::load(Device& device, std::shared_ptr<const WeightPart> part, const DitConfig& config, MatrixPolicy policy,
                                       const CancelToken* cancel, const LoadProgress& progress, PartBudget budget) {
  const DitShare whole{&device, config.layers, budget};
  return load({&whole, 1}, std::move(part), config, policy, cancel, progress);
}

bool Dit::streamed() const {
  return std::any_of(weights_.shards.begin(), weights_.shards.end(), [](const DitShard& shard) { return shard.block_store != nullptr; });
}

std::uint64_t Dit::give_back(std::uint64_t bytes) const {
  std::uint64_t given = 0;
  for (const DitShard& shard : weights_.shards)
    if (shard.block_store != nullptr && shard.device->is_cpu() && given < bytes) given += shard.block_store->give_back(bytes - given);
  return given;
}

DitWeights& Dit::change_weights() {
  keep_modulation(nullptr);
  return weights_;
}

std::shared_ptr<const ModulationTables> Dit::known_modulation(std::span<const float> times) const {
  const std::lock_guard lock(mutex_);
  return modulation_ != nullptr && std::equal(times.begin(), times.end(), modulation_->times.begin(), modulation_->times.end())
             ? modulation_
             : nullptr;
}

void Dit::keep_modulation(std::shared_ptr<const ModulationTables> tables) const {
  std::shared_ptr<const ModulationTables> before;  // freed without the lock
  const std::lock_guard lock(mutex_);
  before = std::exchange(modulation_, std::move(tables));
}

Result<void> DitRun::check_step(int step) const {
  if (step >= 0 && step < static_cast<int>(steps_.size())) return {};
  return Error{ErrorCode::failure, fmt::format("evaluation {} of {} requested", step, steps_.size()), "step", ""};
}

Result<DitRows> DitRun::evaluate(int step, const DitRows& x, const CancelToken* cancel, const BlockProgress& progress) {
  TRITIUM_TRY(check_step(step));
  TRITIUM_TRY(prepare_modulation(step, cancel));
  expect_blocks(static_cast<int>(steps_.size()) - step);
  select_modulation(steps_[static_cast<std::size_t>(step)]);
  TRITIUM_TRY(embed(step, x, cancel));
  if (residual_ != nullptr) TRITIUM_TRY(begin_residual(step, cancel));
  TRITIUM_TRY(run_blocks(step, cancel, progress));
  if (residual_ != nullptr) TRITIUM_TRY(end_residual(step, cancel));
  return finish(step, cancel);
}

void DitRun::expect_blocks(int passes) {
  for (const DitShard& shard : dit_->weights().shards) {
    if (shard.block_store == nullptr) continue;
    std::vector<int> units;
    for (const int block : blocks_)
      if (block >= shard.first && block < shard.first + shard.blocks) units.push_back(block - shard.first);
    const bool none = units.empty();
    shard.block_store->expect(none ? 0 : passes, std::move(units));
  }
}

// Ends with the state on the first device.
Result<void> DitRun::run_blocks(int step, const CancelToken* cancel, const BlockProgress& progress) {
  const std::vector<DitShard>& shards = dit_->weights().shards;
  std::size_t at = 0;
  int done = 0;
  for (const int block : blocks_) {
    const auto shard = static_cast<std::size_t>(&dit_->weights().shard_of(block) - shards.data());
    if (shard != at) hand_over(at, shard);
    at = shard;
    TRITIUM_TRY(run_block(step, block, places_[at], cancel));
    if (progress) progress(++done, static_cast<int>(blocks_.size()));
  }
  if (at != 0) hand_over(at, 0);
  return {};
}

// The state goes on to another device.
void DitRun::hand_over(std::size_t from, std::size_t to) {
  const std::vector<DitShard>& shards = dit_->weights().shards;
  // In the order of the devices, so that two requests do not wait for each other.
  const auto first = shards[std::min(from, to)].device->lock(), second = shards[std::max(from, to)].device->lock();
  copy(places_[from].state, places_[to].state);
}

void DitRun::select_modulation(const RowTimesteps& timesteps) {
  std::vector<std::int32_t> table_row(timesteps.values.size());
  for (std::size_t i = 0; i < table_row.size(); ++i) table_row[i] = modulation_->index.at(timesteps.values[i]);
  std::vector<std::int32_t> variants(static_cast<std::size_t>(layout_.rows())), times;
  for (std::size_t row = 0; row < variants.size(); ++row)
    variants[row] = 3 * table_row[timesteps.index[row]] + static_cast<std::int32_t>(layout_.tags[row]);
  for (int row = layout_.target_audio().first; row < layout_.rows(); ++row)
    times.push_back(table_row[timesteps.index[static_cast<std::size_t>(row)]]);
  for (std::size_t s = 0; s < places_.size(); ++s) {
    const auto lock = dit_->weights().shards[s].device->lock();
    upload(places_[s].variant_of_row, variants);
  }
  const auto lock = device().lock();
  upload(time_of_target_, times);
}

Result<void> DitRun::embed(int step, const DitRows& x, const CancelToken* cancel) {
  const std::int64_t video_rows = layout_.target_video().rows, audio_rows = layout_.target_audio().rows;
  if (static_cast<std::int64_t>(x.video.size()) != video_rows * config().video_features ||
      static_cast<std::int64_t>(x.audio.size()) != audio_rows * config().audio_features)
    return Error{
        ErrorCode::failure,
        fmt::format("{} video and {} audio values do not fill {} and {} rows", x.video.size(), x.audio.size(), video_rows, audio_rows),
        "latents", ""};
  Graph graph(device(), fmt::format("dit.step{}.embed", step));
  ggml_context* context = graph.context();
  ggml_tensor* audio = ops::linear(graph, dit_->weights().audio_in, graph.input("audio", x.audio, {config().audio_features, audio_rows}));
  ggml_tensor* video = ops::linear(graph, dit_->weights().video_in, graph.input("video", x.video, {config().video_features, video_rows}));
  graph.name("audio_embed", audio);
  graph.name("video_embed", video);
  ggml_tensor* packed = text_state_;
  if (condition_state_ != nullptr) packed = ggml_concat(context, packed, condition_state_, 1);
  packed = ggml_concat(context, ggml_concat(context, packed, audio, 1), video, 1);
  graph.watch(packed);
  graph.effect(ggml_cpy(context, graph.name("out", packed), places_.front().state));
  return graph.run(cancel);
}

Result<void> DitRun::run_block(int step, int index, const Place& place, const CancelToken* cancel) {
  enum Chunk { shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp };
  TRITIUM_TRY_ASSIGN(const PinnedDitBlock pinned, pin_block(dit_->weights(), index, cancel));
  const DitBlockWeights& block = pinned.weights;
  Graph graph(*dit_->weights().shard_of(index).device, fmt::format("dit.step{}.block{}", step, index));
  const ops::Modulation modulation{modulation_->blocks[static_cast<std::size_t>(index)], place.variant_of_row};
  const float eps = config().eps;

  ggml_tensor* h = ops::modulated_rms_norm(graph, place.state, block.norm1, eps, modulation, shift_msa, scale_msa);
  ggml_tensor* attention = dit_attention(graph, config(), block, graph.name("attn_in", h), &place.rotary);
  ggml_tensor* x = graph.name("after_attn", ops::gated_add(graph, place.state, attention, modulation, gate_msa));
  h = ops::modulated_rms_norm(graph, x, block.norm2, eps, modulation, shift_mlp, scale_mlp);
  x = ops::gated_add(graph, x, dit_mlp(graph, block, graph.name("mlp_in", h)), modulation, gate_mlp);
  graph.watch(x);
  graph.effect(ggml_cpy(graph.context(), graph.name("out", x), place.state));
  return graph.run(cancel);
}

ggml_tensor* DitRun::target_rows(const Graph& graph) const {
  ggml_tensor* state = places_.front().state;
  const std::int64_t first = layout_.target_audio().first;  // the video's follow, and nothing behind them
  return ggml_view_2d(graph.context(), state, state->ne[0], layout_.rows() - first, state->nb[1],
                      static_cast<std::size_t>(first) * state->nb[1]);
}

Result<DitRows> DitRun::finish(int step, const CancelToken* cancel) {
  const DitWeights& weights = dit_->weights();
  Graph graph(device(), fmt::format("dit.step{}.final", step));
  ggml_context* context = graph.context();
  const auto rows_of = [&](ggml_tensor* t, std::int64_t first, std::int64_t rows) {
    return ggml_view_2d(context, t, t->ne[0], rows, t->nb[1], static_cast<std::size_t>(first) * t->nb[1]);
  };
  const std::int64_t audio_rows = layout_.target_audio().rows, video_rows = layout_.target_video().rows;
  ggml_tensor* target = ggml_cont(context, target_rows(graph));
  ggml_tensor* h = ops::modulated_rms_norm(graph, target, weights.final_norm, config().eps, {modulation_->final_layer, time_of_target_},
                                           /*shift_chunk=*/0, /*scale_chunk=*/1);
  ggml_tensor* audio = graph.output("audio", ops::linear(graph, weights.audio_out, rows_of(h, 0, audio_rows)));
  ggml_tensor* video = graph.output("video", ops::linear(graph, weights.video_out, rows_of(h, audio_rows, video_rows)));
  graph.watch(audio);
  graph.watch(video);
  TRITIUM_TRY(graph.run(cancel));
  return DitRows{graph.read(video), graph.read(audio)};
}

}  // namespace tritium
