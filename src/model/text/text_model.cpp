#include "model/text/text_model.h"

#include "base/system.h"
#include "base/try.h"
#include "ops/attention.h"
#include "ops/norm.h"
#include "ops/rope.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <tuple>

namespace tritium {
namespace {

constexpr const char* kPart = "text encoder";
constexpr std::size_t kLayerParams = 64;  // tensors of a layer, with what its matrices have beside them
constexpr int kStreamReaders = 2;         // beside a computation
constexpr const char* kEmbedding = "model.language_model.embed_tokens.weight";

// Angles [rows][head_dim/2]: frequency j turns with the position axis that the interleaved sections give it (spec/text.md §3.3).
std::vector<float> rotary_angles(const TextConfig& config, std::span<const std::array<std::int32_t, 3>> positions) {
  const std::int64_t pairs = config.head_dim / 2;
  std::vector<float> frequency(static_cast<std::size_t>(pairs));
  std::vector<std::size_t> axis(frequency.size());
  for (std::int64_t j = 0; j < pairs; ++j) {
    const auto i = static_cast<std::size_t>(j);
    frequency[i] = static_cast<float>(1.0 / std::pow(config.rope_theta, static_cast<double>(2 * j) / static_cast<double>(config.head_dim)));
    const auto candidate = static_cast<std::size_t>(j % 3);
    axis[i] = candidate != 0 && j < 3 * config.mrope_section[candidate] ? candidate : 0;
  }
  std::vector<float> angles;
  angles.reserve(positions.size() * frequency.size());
  for (const auto& position : positions)
    for (std::size_t j = 0; j < frequency.size(); ++j) angles.push_back(static_cast<float>(position[axis[j]]) * frequency[j]);
  return angles;
}

Error vision_error(std::string what) {
  return Error{ErrorCode::failure, "internal error: vision rows do not fit the prompt: " + std::move(what), "", ""};
}

// How ops::attention is to be cut for a prompt of `rows` tokens: pictures can make it so long that the usual parts would be too many
// for one graph; they then become larger.
struct AttentionParts {
  std::int64_t max_scores;
  std::size_t max_nodes;
};
AttentionParts attention_parts(std::int64_t rows, std::int64_t heads) {
  constexpr std::int64_t kMaxParts = 768, kNodesPerPart = 16, kOtherNodes = 512;
  const std::int64_t part_rows =
      std::max(std::max<std::int64_t>(1, ops::kMaxAttentionScores / (rows * heads)), (rows + kMaxParts - 1) / kMaxParts);
  const std::int64_t parts = (rows + part_rows - 1) / part_rows;
  return {part_rows * rows * heads, static_cast<std::size_t>(kOtherNodes + parts * kNodesPerPart)};
}

}  // namespace

TextModel::Layer TextModel::declare_layer(ParamLoader& loader, const TextConfig& c, int i) {
  const std::int64_t q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  const std::string p = fmt::format("model.language_model.layers.{}.", i);
  Layer layer{};
  layer.input_norm = loader.tensor(p + "input_layernorm.weight", {c.hidden});
  layer.post_norm = loader.tensor(p + "post_attention_layernorm.weight", {c.hidden});
  layer.q_norm = loader.tensor(p + "self_attn.q_norm.weight", {c.head_dim});
  layer.k_norm = loader.tensor(p + "self_attn.k_norm.weight", {c.head_dim});
  layer.q.weight = loader.matrix(p + "self_attn.q_proj.weight", q_width, c.hidden);
  layer.k.weight = loader.matrix(p + "self_attn.k_proj.weight", kv_width, c.hidden);
  layer.v.weight = loader.matrix(p + "self_attn.v_proj.weight", kv_width, c.hidden);
  layer.o.weight = loader.matrix(p + "self_attn.o_proj.weight", c.hidden, q_width);
  layer.gate.weight = loader.matrix(p + "mlp.gate_proj.weight", c.ffn, c.hidden);
  layer.up.weight = loader.matrix(p + "mlp.up_proj.weight", c.ffn, c.hidden);
  layer.down.weight = loader.matrix(p + "mlp.down_proj.weight", c.hidden, c.ffn);
  return layer;
}

std::vector<TextModel::Layer> TextModel::declare(ParamLoader& loader, const TextConfig& c) {
  loader.require(kEmbedding, {c.vocabulary, c.hidden});
  std::vector<Layer> layers;
  for (int i = 0; i < c.layers; ++i) layers.push_back(declare_layer(loader, c, i));
  return layers;
}

Result<std::uint64_t> TextModel::weight_bytes(const WeightPart& part, const TextConfig& config, MatrixPolicy policy) {
  ParamLoader loader(part, kPart, policy);
  declare(loader, config);
  TRITIUM_TRY(loader.check());
  return loader.bytes();
}

std::vector<std::uint64_t> TextModel::layer_bytes(const WeightPart& part, const TextConfig& config, MatrixPolicy policy) {
  std::vector<std::uint64_t> out;
  for (int i = 0; i < config.layers; ++i) {
    ParamLoader loader(part, kPart, policy, kLayerParams);
    declare_layer(loader, config, i);
    out.push_back(loader.bytes());
  }
  return out;
}

Result<BlockUnits> TextModel::units(Device& device, const std::shared_ptr<const WeightPart>& part, const TextConfig& config,
                                    MatrixPolicy policy) {
  struct Loaded {
    Layer layer;
    TensorPool pool{0};
  };
  BlockUnits out;
  out.what = "layers of the text encoder";
  std::uint64_t bytes = 0;
  for (int i = 0; i < config.layers; ++i) {
    ParamLoader loader(*part, kPart, policy, kLayerParams);
    declare_layer(loader, config, i);
    TRITIUM_TRY(loader.check());
    out.sizes.push_back({loader.slot_bytes(device), loader.table_bytes()});
    bytes += out.sizes.back().slot_bytes;
  }
  // A file that the system can keep in its own memory is read faster the next time.
  const ParamLoader::Refill how{kStreamReaders, bytes > host_memory().available / 2};
  out.load = [part, config, policy, how](int i, const DeviceBuffer& slot,
                                         const CancelToken& cancel) -> Result<std::shared_ptr<const void>> {
    ParamLoader loader(*part, kPart, policy, kLayerParams);
    auto loaded = std::make_shared<Loaded>(Loaded{declare_layer(loader, config, i), TensorPool(0)});
    TRITIUM_TRY_ASSIGN(loaded->pool, loader.load_into(slot, how, &cancel));
    return std::shared_ptr<const void>(loaded, &loaded->layer);
  };
  return out;
}

Result<std::uint64_t> TextModel::least_bytes(Device& device, const std::shared_ptr<const WeightPart>& part, const TextConfig& config,
                                             MatrixPolicy policy) {
  TRITIUM_TRY_ASSIGN(const BlockUnits layers, units(device, part, config, policy));
  return BlockStore::least_bytes(layers.sizes);
}

Result<TextModel> TextModel::load(Device& device, std::shared_ptr<const WeightPart> part, const TextConfig& config, MatrixPolicy policy,
                                  const CancelToken* cancel, const LoadProgress& progress, PartBudget budget) {
  TextModel model(device, std::move(part), config);
  ParamLoader loader(*model.part_, kPart, policy);
  std::vector<Layer> layers = declare(loader, config);
  TRITIUM_TRY(loader.check());
  if (budget.holds(loader.bytes())) {
    model.layers_ = std::move(layers);
    TRITIUM_TRY_ASSIGN(model.pool_, loader.load(device, cancel, progress));
  } else {
    TRITIUM_TRY_ASSIGN(BlockUnits streamed, units(device, model.part_, config, policy));
    TRITIUM_TRY_ASSIGN(model.store_, BlockStore::create(device, std::move(streamed), budget.resident_bytes));
  }
  TRITIUM_TRY_ASSIGN(PartRows rows, PartRows::open(*model.part_, model.part_->find(kEmbedding)));
  model.embedding_ = std::make_shared<const PartRows>(std::move(rows));
  return model;
}

Result<std::vector<float>> TextModel::embed(std::span<const std::int32_t> ids) const {
  const auto width = static_cast<std::size_t>(config_.hidden);
  std::vector<float> out(ids.size() * width);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= config_.vocabulary)
      return Error{ErrorCode::model, fmt::format("token id {} is outside the encoder's vocabulary of {}", ids[i], config_.vocabulary),
                   "prompt", "the tokenizer belongs to another model"};
    TRITIUM_TRY(embedding_->decode(ids[i], ids[i] + 1, std::span(out).subspan(i * width, width)));
  }
  return out;
}

Result<void> TextModel::run_layer(int index, ggml_tensor* state, std::span<const float> angles, const Deepstack& deepstack,
                                  const CancelToken* cancel) const {
  BlockPin pin;
  if (store_ != nullptr) { TRITIUM_TRY_ASSIGN(pin, store_->pin(index, cancel)); }
  const Layer& layer = store_ != nullptr ? pin.as<Layer>() : layers_[static_cast<std::size_t>(index)];
  const std::int64_t rows = state->ne[1];
  const AttentionParts parts = attention_parts(rows, config_.heads);
  Graph graph(*device_, fmt::format("text.layer{}", index), parts.max_nodes);
  ggml_context* context = graph.context();
  const ops::RotaryTable table = ops::rotary_table(graph, angles, config_.head_dim / 2);
  const auto heads = [&](ggml_tensor* x, std::int64_t count) { return ggml_reshape_3d(context, x, config_.head_dim, count, rows); };

  ggml_tensor* h = graph.name("attn_in", ops::rms_norm(graph, state, layer.input_norm, config_.rms_eps));
  ggml_tensor* q = heads(ops::linear(graph, layer.q, h), config_.heads);
  ggml_tensor* k = heads(ops::linear(graph, layer.k, h), config_.kv_heads);
  ggml_tensor* v = heads(ops::linear(graph, layer.v, h), config_.kv_heads);
  q = graph.name("q_rope", ops::normalised_heads(graph, q, layer.q_norm, config_.rms_eps, &table));
  k = graph.name("k_rope", ops::normalised_heads(graph, k, layer.k_norm, config_.rms_eps, &table));
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  ggml_tensor* mixed = graph.name(
      "attn_heads", ops::attention(graph, q, k, v, scale, ops::AttentionMask::causal, parts.max_scores, ops::product_precision(layer.q)));
  ggml_tensor* x = graph.name("after_attn", ggml_add(context, state, ops::linear(graph, layer.o, mixed)));

  h = graph.name("mlp_in", ops::rms_norm(graph, x, layer.post_norm, config_.rms_eps));
  ggml_tensor* gated = ggml_swiglu_split(context, ops::linear(graph, layer.gate, h), ops::linear(graph, layer.up, h));
  x = ggml_add(context, x, ops::linear(graph, layer.down, gated));
  const auto set = static_cast<std::size_t>(index);
  if (set < deepstack.sets.size()) x = ggml_add(context, x, deepstack_rows(graph, deepstack, set));
  graph.watch(x);
  graph.effect(ggml_cpy(context, graph.name("out", x), state));
  return graph.run(cancel);
}

Result<void> TextModel::check_prompt(std::span<const std::int32_t> ids, Positions positions) const {
  if (ids.empty()) return Error{ErrorCode::usage, "prompt is empty; give at least one character", "prompt", ""};
  if (ids.size() != positions.size()) return Error{ErrorCode::failure, "token ids and positions differ in number", "prompt", ""};
  if (static_cast<std::int64_t>(ids.size()) > config_.max_positions)
    return Error{ErrorCode::usage, fmt::format("the prompt has {} tokens, the model has {} positions", ids.size(), config_.max_positions),
                 "prompt", "shorten it"};
  return {};
}

// [hidden, tokens]: the set's rows where there are pads, zero elsewhere.
ggml_tensor* TextModel::deepstack_rows(Graph& graph, const Deepstack& deepstack, std::size_t set) const {
  const std::vector<float> zeros(static_cast<std::size_t>(config_.hidden), 0.0f);
  ggml_tensor* zero_row = graph.input("no_vision", zeros, {config_.hidden, 1});
  ggml_tensor* joined = nullptr;
  for (const std::span<const float> rows : deepstack.sets[set]) {
    ggml_tensor* part = graph.input("deepstack", rows, {config_.hidden, static_cast<std::int64_t>(rows.size()) / config_.hidden});
    joined = joined == nullptr ? part : ggml_concat(graph.context(), joined, part, 1);
  }
  joined = joined == nullptr ? zero_row : ggml_concat(graph.context(), joined, zero_row, 1);
  return ggml_get_rows(graph.context(), joined, graph.input_i32("row_of_token", deepstack.row_of_token));
}

// Overwrites the pads' embeddings and assigns the deepstack rows.
Result<TextModel::Deepstack> TextModel::insert_vision(std::span<const std::int32_t> ids, const VisionInputs& vision,
                                                      std::span<float> embedded) const {
  const auto hidden = static_cast<std::size_t>(config_.hidden);
  Deepstack out;
  out.row_of_token.assign(ids.size(), -1);
  out.sets.resize(std::max(vision.images.deepstack.size(), vision.videos.deepstack.size()));
  if (out.sets.size() > static_cast<std::size_t>(config_.layers))
    return vision_error(fmt::format("{} deepstack sets for {} layers", out.sets.size(), config_.layers));
  std::size_t before = 0;  // rows of the modality before
  for (const auto& [name, pad, rows] :
       {std::tuple("image", vision.pads.image, &vision.images), {"video", vision.pads.video, &vision.videos}}) {
    const auto pads = static_cast<std::size_t>(std::count(ids.begin(), ids.end(), pad));
    if (rows->merged.size() != pads * hidden)
      return vision_error(fmt::format("{} {} pads for {} values, {} each", pads, name, rows->merged.size(), hidden));
    if (pads == 0) continue;
    std::size_t next = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != pad) continue;
      const auto row = std::span(rows->merged).subspan(next * hidden, hidden);
      std::copy(row.begin(), row.end(), embedded.subspan(i * hidden, hidden).begin());
      out.row_of_token[i] = static_cast<std::int32_t>(before + next++);
    }
    for (std::size_t set = 0; set < out.sets.size(); ++set) {
      if (set >= rows->deepstack.size() || rows->deepstack[set].size() != rows->merged.size())
        return vision_error(fmt::format("deepstack set {} does not go with the {} rows", set, name));
      out.sets[set].push_back(rows->deepstack[set]);
    }
    before += pads;
  }
  std::replace(out.row_of_token.begin(), out.row_of_token.end(), -1, static_cast<std::int32_t>(before));
  return out;
}

Result<std::vector<float>> TextModel::run_layers(std::span<const float> embedded, Positions positions, const Deepstack& deepstack,
                                                 const CancelToken* cancel, const Progress& progress) const {
  const std::array<std::int64_t, 2> shape{config_.hidden, static_cast<std::int64_t>(positions.size())};
  if (device_->observer()) device_->observer()("text.embeddings", shape, embedded);
  TensorPool state_pool(1);
  ggml_tensor* state = state_pool.add("text.state", GGML_TYPE_F32, shape);
  TRITIUM_TRY(state_pool.allocate(*device_, "the text encoder's state"));
  upload(state, embedded);
  const std::vector<float> angles = rotary_angles(config_, positions);
  if (store_ != nullptr) store_->expect(1);
  for (int i = 0; i < config_.layers; ++i) {
    TRITIUM_TRY(run_layer(i, state, angles, deepstack, cancel));
    if (progress) progress(i + 1, config_.layers);
  }
  return download(state);
}

Result<std::vector<float>> TextModel::encode(std::span<const std::int32_t> ids, std::span<const std::array<std::int32_t, 3>> positions,
                                             const CancelToken* cancel, const std::function<void(int, int)>& progress) const {
  TRITIUM_TRY(check_prompt(ids, positions));
  TRITIUM_TRY_ASSIGN(const std::vector<float> embedded, embed(ids));
  return run_layers(embedded, positions, {}, cancel, progress);
}

Result<std::vector<float>> TextModel::encode(std::span<const std::int32_t> ids, std::span<const std::array<std::int32_t, 3>> positions,
                                             const VisionInputs& vision, const CancelToken* cancel,
                                             const std::function<void(int, int)>& progress) const {
  TRITIUM_TRY(check_prompt(ids, positions));
  TRITIUM_TRY_ASSIGN(std::vector<float> embedded, embed(ids));
  TRITIUM_TRY_ASSIGN(const Deepstack deepstack, insert_vision(ids, vision, embedded));
  return run_layers(embedded, positions, deepstack, cancel, progress);
}

}  // namespace tritium
