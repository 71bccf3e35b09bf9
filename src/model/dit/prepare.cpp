// What a request computes once, before the first evaluation.
#include "base/try.h"
#include "model/dit/block.h"
#include "model/dit/dit.h"
#include "ops/norm.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>

namespace tritium {
namespace {

// Modulation tables hold consecutive steps up to this size; a long schedule of the full model is done in several parts.
constexpr std::uint64_t kModulationBytes = std::uint64_t{1} << 30;

// Angles [rows][3·frequencies] = t·f, h·f, w·f with f_i = 10000^(-i/frequencies) (spec/dit.md §4.6).
std::vector<float> rotary_angles(const PackedLayout& layout, std::int64_t frequencies) {
  std::vector<float> f(static_cast<std::size_t>(frequencies));
  for (std::size_t i = 0; i < f.size(); ++i)
    f[i] = static_cast<float>(1.0 / std::pow(10000.0, static_cast<double>(i) / static_cast<double>(frequencies)));
  std::vector<float> angles;
  angles.reserve(layout.positions.size() * 3 * f.size());
  for (const Position& position : layout.positions)
    for (const float coordinate : position)
      for (const float each : f) angles.push_back(coordinate * each);
  return angles;
}

float silu(float x) { return static_cast<float>(static_cast<double>(x) / (1.0 + std::exp(-static_cast<double>(x)))); }

// Linear interpolation in the table of a pruned model, time in [0,1] (spec/dit.md §3).
void append_curve(std::vector<float>& out, std::span<const float> table, std::int64_t points, std::int64_t width, float time) {
  const float p = std::clamp(time, 0.0f, 1.0f) * static_cast<float>(points - 1);
  const auto i = std::min(static_cast<std::int64_t>(p), points - 2);
  const float fraction = p - static_cast<float>(i);
  for (std::int64_t k = 0; k < width; ++k) {
    const float a = table[static_cast<std::size_t>(i * width + k)], b = table[static_cast<std::size_t>((i + 1) * width + k)];
    out.push_back(a + fraction * (b - a));
  }
}

}  // namespace

DitRun::DitRun(const Dit& dit, PackedLayout layout, std::vector<RowTimesteps> steps)
    : dit_(&dit), layout_(std::move(layout)), steps_(std::move(steps)), blocks_(static_cast<std::size_t>(dit.config().layers)) {
  std::iota(blocks_.begin(), blocks_.end(), 0);
}

Result<DitRun> DitRun::begin(const Dit& dit, PackedLayout layout, std::span<const float> text, const DitRows& conditions,
                             std::vector<RowTimesteps> steps, const CancelToken* cancel) {
  DitRun run(dit, std::move(layout), std::move(steps));
  TRITIUM_TRY(run.check_sizes(text, conditions));
  TRITIUM_TRY(run.allocate_state());
  TRITIUM_TRY(run.refine_text(text, cancel));
  if (run.condition_state_ != nullptr) TRITIUM_TRY(run.project_conditions(conditions, cancel));
  return run;
}

Result<void> DitRun::check_sizes(std::span<const float> text, const DitRows& conditions) const {
  std::int64_t visual = 0, audio = 0;
  for (const Segment& s : layout_.segments) {
    if (s.role == RowRole::keyframe || s.role == RowRole::reference_visual) visual += s.rows;
    if (s.role == RowRole::reference_audio) audio += s.rows;
  }
  const auto expect = [](std::size_t have, std::int64_t rows, std::int64_t width, const char* what) -> Result<void> {
    if (static_cast<std::int64_t>(have) == rows * width) return {};
    return Error{ErrorCode::failure, fmt::format("{} values do not fill {} rows of {}", have, rows, width), what, ""};
  };
  TRITIUM_TRY(expect(text.size(), layout_.text().rows, config().text_dim, "text rows"));
  TRITIUM_TRY(expect(conditions.video.size(), visual, config().video_features, "visual condition rows"));
  TRITIUM_TRY(expect(conditions.audio.size(), audio, config().audio_features, "audio condition rows"));
  for (const RowTimesteps& each : steps_)
    if (each.index.size() != layout_.tags.size() || each.values.empty())
      return Error{ErrorCode::failure, "timesteps do not fit the rows", "steps", ""};
  return {};
}

Result<void> DitRun::allocate_state() {
  const std::int64_t rows = layout_.rows(), text = layout_.text().rows, targets = rows - layout_.target_audio().first;
  const std::int64_t conditions = rows - text - targets;
  pool_ = TensorPool(3);
  text_state_ = pool_.add("dit.text", GGML_TYPE_F32, {config().hidden, text});
  if (conditions > 0) condition_state_ = pool_.add("dit.conditions", GGML_TYPE_F32, {config().hidden, conditions});
  time_of_target_ = pool_.add("dit.time_of_target", GGML_TYPE_I32, {targets});
  {
    const auto lock = device().lock();
    TRITIUM_TRY(pool_.allocate(device(), "the state of the diffusion transformer"));
  }
  const ops::RotaryValues values = ops::rotary_values(rotary_angles(layout_, config().rope_frequencies));
  for (const DitShard& shard : dit_->weights().shards) {
    TRITIUM_TRY_ASSIGN(Place place, make_place(*shard.device, values));
    places_.push_back(std::move(place));
  }
  return {};
}

Result<DitRun::Place> DitRun::make_place(Device& device, const ops::RotaryValues& values) const {
  const std::int64_t rows = layout_.rows(), pairs = 3 * config().rope_frequencies;
  Place place;
  place.pool = TensorPool(4);
  place.state = place.pool.add("dit.state", GGML_TYPE_F32, {config().hidden, rows});
  place.rotary.cos = place.pool.add("dit.rope_cos", GGML_TYPE_F32, {pairs, 1, rows});
  place.rotary.sin = place.pool.add("dit.rope_sin", GGML_TYPE_F32, {pairs, 1, rows});
  place.variant_of_row = place.pool.add("dit.variant_of_row", GGML_TYPE_I32, {rows});
  const auto lock = device.lock();
  TRITIUM_TRY(place.pool.allocate(device, "the state of the diffusion transformer"));
  upload(place.rotary.cos, values.cos);
  upload(place.rotary.sin, values.sin);
  return place;
}

Result<void> DitRun::refine_text(std::span<const float> text, const CancelToken* cancel) {
  const DitWeights& weights = dit_->weights();
  {
    Graph graph(device(), "dit.text");
    ggml_tensor* x = ops::linear(graph, weights.text_in, graph.input("text", text, {config().text_dim, layout_.text().rows}));
    graph.effect(ggml_cpy(graph.context(), graph.name("text_proj", x), text_state_));
    TRITIUM_TRY(graph.run(cancel));
  }
  for (std::size_t i = 0; i < weights.refiner.size(); ++i) {
    const DitBlockWeights& block = weights.refiner[i];
    Graph graph(device(), fmt::format("dit.refiner{}", i));
    ggml_context* context = graph.context();
    ggml_tensor* x = text_state_;
    x = ggml_add(context, x, dit_attention(graph, config(), block, ops::rms_norm(graph, x, block.norm1, config().eps), nullptr));
    x = ggml_add(context, x, dit_mlp(graph, block, ops::rms_norm(graph, x, block.norm2, config().eps)));
    graph.effect(ggml_cpy(context, graph.name("out", x), text_state_));
    TRITIUM_TRY(graph.run(cancel));
  }
  Graph graph(device(), "dit.text");
  ggml_tensor* x = graph.name("text_refined", ops::rms_norm(graph, text_state_, weights.refiner_norm, config().eps));
  graph.watch(x);
  graph.effect(ggml_cpy(graph.context(), x, text_state_));
  return graph.run(cancel);
}

Result<void> DitRun::project_conditions(const DitRows& conditions, const CancelToken* cancel) {
  Graph graph(device(), "dit.conditions");
  ggml_context* context = graph.context();
  const auto project = [&](const ops::Linear& layer, const std::vector<float>& rows, std::int64_t width, const char* name) -> ggml_tensor* {
    if (rows.empty()) return nullptr;
    return ops::linear(graph, layer, graph.input(name, rows, {width, static_cast<std::int64_t>(rows.size()) / width}));
  };
  ggml_tensor* visual = project(dit_->weights().video_in, conditions.video, config().video_features, "visual");
  ggml_tensor* audio = project(dit_->weights().audio_in, conditions.audio, config().audio_features, "audio");
  ggml_tensor* packed = nullptr;
  std::int64_t visual_row = 0, audio_row = 0;
  for (const Segment& s : layout_.segments) {
    const bool is_visual = s.role == RowRole::keyframe || s.role == RowRole::reference_visual;
    if (!is_visual && s.role != RowRole::reference_audio) continue;
    ggml_tensor* source = is_visual ? visual : audio;
    std::int64_t& row = is_visual ? visual_row : audio_row;
    ggml_tensor* part = ggml_view_2d(context, source, source->ne[0], s.rows, source->nb[1], static_cast<std::size_t>(row) * source->nb[1]);
    packed = packed == nullptr ? part : ggml_concat(context, packed, part, 1);
    row += s.rows;
  }
  graph.effect(ggml_cpy(context, packed, condition_state_));
  return graph.run(cancel);
}

// Sinusoids of the unscaled times, cosines first: [times][time_input] (spec/dit.md §4.3).
std::vector<float> DitRun::time_features(std::span<const float> times) const {
  const std::int64_t half = config().time_input / 2;
  std::vector<float> out;
  for (const float time : times)
    for (const bool sine : {false, true})
      for (std::int64_t i = 0; i < half; ++i) {
        const float frequency = static_cast<float>(std::exp(-std::log(10000.0) * static_cast<double>(i) / static_cast<double>(half)));
        const double angle = static_cast<double>(time * frequency);
        out.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
      }
  return out;
}

// What the modulation layers see for each time: [times][time_dim].
Result<std::vector<float>> DitRun::time_embedding(std::span<const float> times, const CancelToken* cancel) const {
  std::vector<float> out;
  if (config().pruned()) {
    for (const float time : times) append_curve(out, dit_->weights().curve, config().curve_points, config().time_dim, time);
    return out;
  }
  Graph graph(device(), "dit.time");
  ggml_tensor* x = graph.input("sinusoid", time_features(times), {config().time_input, static_cast<std::int64_t>(times.size())});
  x = ggml_silu(graph.context(), ops::linear(graph, dit_->weights().time_in, x));
  x = graph.output("t_emb", ops::linear(graph, dit_->weights().time_out, x));
  TRITIUM_TRY(graph.run(cancel));
  out = graph.read(x);
  for (float& value : out) value = silu(value);
  return out;
}

// The distinct times of this and the following steps, as many as the tables may hold.
std::vector<float> DitRun::modulation_times(int first_step) const {
  const std::uint64_t bytes_per_time =
      sizeof(float) * static_cast<std::uint64_t>(config().hidden) * (18 * static_cast<std::uint64_t>(config().layers) + 2);
  std::vector<float> times;
  for (std::size_t step = static_cast<std::size_t>(first_step); step < steps_.size(); ++step) {
    const auto& values = steps_[step].values;
    if (!times.empty() && (times.size() + values.size()) * bytes_per_time > kModulationBytes) break;
    for (const float value : values)
      if (std::find(times.begin(), times.end(), value) == times.end()) times.push_back(value);
  }
  return times;
}

Result<void> DitRun::prepare_modulation(int first_step, const CancelToken* cancel) {
  const auto& wanted = steps_[static_cast<std::size_t>(first_step)].values;
  const auto there = [this](float time) { return modulation_->index.contains(time); };
  if (modulation_ != nullptr && std::all_of(wanted.begin(), wanted.end(), there)) return {};
  std::vector<float> times = modulation_times(first_step);
  modulation_ = dit_->known_modulation(times);
  if (modulation_ != nullptr) return {};
  dit_->keep_modulation(nullptr);  // gives its memory back first
  TRITIUM_TRY_ASSIGN(modulation_, compute_modulation(std::move(times), cancel));
  dit_->keep_modulation(modulation_);
  return {};
}

Result<std::shared_ptr<const ModulationTables>> DitRun::compute_modulation(std::vector<float> times, const CancelToken* cancel) const {
  const auto count = static_cast<std::int64_t>(times.size());
  TRITIUM_TRY_ASSIGN(const std::vector<float> embedding, time_embedding(times, cancel));
  auto tables = std::make_shared<ModulationTables>();
  for (std::size_t i = 0; i < times.size(); ++i) tables->index.emplace(times[i], static_cast<int>(i));
  tables->times = std::move(times);
  for (const DitShard& shard : dit_->weights().shards) {
    TensorPool& pool = tables->pools.emplace_back(static_cast<std::size_t>(shard.blocks) + 1);
    if (shard.first == 0) tables->final_layer = pool.add("dit.modulation_final", GGML_TYPE_F32, {config().hidden, 2, count});
    for (int i = shard.first; i < shard.first + shard.blocks; ++i)
      tables->blocks.push_back(pool.add(fmt::format("dit.modulation{}", i), GGML_TYPE_F32, {config().hidden, 6, 3 * count}));
    {
      const auto lock = shard.device->lock();
      TRITIUM_TRY(pool.allocate(*shard.device, "the modulation tables"));
    }
    if (shard.modulation_store != nullptr) shard.modulation_store->expect(1);
  }
  const auto compute = [&](Device& on, const std::string& scope, const ops::Linear& layer, ggml_tensor* table) -> Result<void> {
    Graph graph(on, scope);
    // One timestep's output is [modality][chunk][hidden], exactly a run of the table.
    ggml_tensor* y = graph.name("adaln", ops::linear(graph, layer, graph.input("time", embedding, {config().time_dim, count})));
    graph.watch(y);
    graph.effect(ggml_cpy(graph.context(), y, ggml_reshape_2d(graph.context(), table, y->ne[0], y->ne[1])));
    return graph.run(cancel);
  };
  for (int i = 0; i < config().layers; ++i) {
    TRITIUM_TRY_ASSIGN(const PinnedDitModulation pinned, pin_modulation(dit_->weights(), i, cancel));
    TRITIUM_TRY(compute(*dit_->weights().shard_of(i).device, fmt::format("dit.modulation.block{}", i), pinned.layer,
                        tables->blocks[static_cast<std::size_t>(i)]));
  }
  TRITIUM_TRY(compute(device(), "dit.modulation.final", dit_->weights().final_modulation, tables->final_layer));
  return std::shared_ptr<const ModulationTables>(std::move(tables));
}

}  // namespace tritium
