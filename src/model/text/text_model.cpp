#include "model/text/text_model.h"

#include "base/try.h"
#include "ops/attention.h"
#include "ops/norm.h"
#include "ops/rope.h"

#include <cmath>
#include <fmt/format.h>

namespace tritium {
namespace {

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

}  // namespace

Result<std::string> TextModel::name_prefix(const Checkpoint& checkpoint) {
  for (const char* prefix : {"model.language_model.", "model.", "language_model.model.", ""})
    if (checkpoint.find(std::string(prefix) + "embed_tokens.weight") != nullptr) return std::string(prefix);
  return Error{ErrorCode::model, "this is not a Qwen3-VL text encoder: no tensor '...embed_tokens.weight'", "", "expected e.g. 'model.language_model.embed_tokens.weight'"};
}

std::vector<TextModel::Layer> TextModel::declare(ParamLoader& loader, const TextConfig& c, const std::string& prefix) {
  const std::int64_t q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  loader.require(prefix + "embed_tokens.weight", {c.vocabulary, c.hidden});
  std::vector<Layer> layers;
  for (int i = 0; i < c.layers; ++i) {
    const std::string p = fmt::format("{}layers.{}.", prefix, i);
    Layer layer{};
    layer.input_norm = loader.tensor(p + "input_layernorm.weight", {c.hidden});
    layer.post_norm = loader.tensor(p + "post_attention_layernorm.weight", {c.hidden});
    layer.q_norm = loader.tensor(p + "self_attn.q_norm.weight", {c.head_dim});
    layer.k_norm = loader.tensor(p + "self_attn.k_norm.weight", {c.head_dim});
    layer.q.weight = loader.matrix(p + "self_attn.q_proj.weight", {q_width, c.hidden});
    layer.k.weight = loader.matrix(p + "self_attn.k_proj.weight", {kv_width, c.hidden});
    layer.v.weight = loader.matrix(p + "self_attn.v_proj.weight", {kv_width, c.hidden});
    layer.o.weight = loader.matrix(p + "self_attn.o_proj.weight", {c.hidden, q_width});
    layer.gate.weight = loader.matrix(p + "mlp.gate_proj.weight", {c.ffn, c.hidden});
    layer.up.weight = loader.matrix(p + "mlp.up_proj.weight", {c.ffn, c.hidden});
    layer.down.weight = loader.matrix(p + "mlp.down_proj.weight", {c.hidden, c.ffn});
    layers.push_back(layer);
  }
  return layers;
}

Result<std::uint64_t> TextModel::weight_bytes(const Checkpoint& checkpoint, const TextConfig& config, MatrixPrecision precision) {
  TRITIUM_TRY_ASSIGN(const std::string prefix, name_prefix(checkpoint));
  ParamLoader loader(checkpoint, "text encoder", precision);
  declare(loader, config, prefix);
  TRITIUM_TRY(loader.check());
  return loader.bytes();
}

Result<TextModel> TextModel::load(Device& device, std::shared_ptr<const Checkpoint> checkpoint, const TextConfig& config, MatrixPrecision precision,
                                  const CancelToken* cancel, const LoadProgress& progress) {
  TextModel model(device, std::move(checkpoint), config);
  TRITIUM_TRY_ASSIGN(model.prefix_, name_prefix(*model.checkpoint_));
  ParamLoader loader(*model.checkpoint_, "text encoder", precision);
  model.layers_ = declare(loader, config, model.prefix_);
  TRITIUM_TRY_ASSIGN(model.pool_, loader.load(device, cancel, progress));
  return model;
}

Result<std::vector<float>> TextModel::embed(std::span<const std::int32_t> ids) const {
  const TensorInfo& table = *checkpoint_->find(prefix_ + "embed_tokens.weight");
  const std::size_t row_bytes = static_cast<std::size_t>(config_.hidden) * dtype_size(table.dtype);
  std::vector<std::uint8_t> row(row_bytes);
  std::vector<float> out(ids.size() * static_cast<std::size_t>(config_.hidden));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= config_.vocabulary)
      return Error{ErrorCode::model, fmt::format("token id {} is outside the encoder's vocabulary of {}", ids[i], config_.vocabulary), "prompt", "the tokenizer belongs to another model"};
    TRITIUM_TRY(checkpoint_->read_range(table, static_cast<std::uint64_t>(ids[i]) * row_bytes, row));
    convert_to_f32(table.dtype, row, std::span(out).subspan(i * static_cast<std::size_t>(config_.hidden), static_cast<std::size_t>(config_.hidden)));
  }
  return out;
}

Result<void> TextModel::run_layer(int index, ggml_tensor* state, std::span<const float> angles, const CancelToken* cancel) const {
  const Layer& layer = layers_[static_cast<std::size_t>(index)];
  Graph graph(*device_, fmt::format("text.layer{}", index));
  ggml_context* context = graph.context();
  const std::int64_t rows = state->ne[1];
  const ops::RotaryTable table = ops::rotary_table(graph, angles, config_.head_dim / 2);
  const auto heads = [&](ggml_tensor* x, std::int64_t count) { return ggml_reshape_3d(context, x, config_.head_dim, count, rows); };

  ggml_tensor* h = graph.name("attn_in", ops::rms_norm(graph, state, layer.input_norm, config_.rms_eps));
  ggml_tensor* q = heads(ops::linear(graph, layer.q, h), config_.heads);
  ggml_tensor* k = heads(ops::linear(graph, layer.k, h), config_.kv_heads);
  ggml_tensor* v = heads(ops::linear(graph, layer.v, h), config_.kv_heads);
  q = graph.name("q_rope", ops::rotate(graph, ops::rms_norm(graph, q, layer.q_norm, config_.rms_eps), table));
  k = graph.name("k_rope", ops::rotate(graph, ops::rms_norm(graph, k, layer.k_norm, config_.rms_eps), table));
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  ggml_tensor* mixed = graph.name("attn_heads", ops::attention(graph, q, k, v, scale, ops::AttentionMask::causal));
  ggml_tensor* x = graph.name("after_attn", ggml_add(context, state, ops::linear(graph, layer.o, mixed)));

  h = graph.name("mlp_in", ops::rms_norm(graph, x, layer.post_norm, config_.rms_eps));
  ggml_tensor* gated = ggml_swiglu_split(context, ops::linear(graph, layer.gate, h), ops::linear(graph, layer.up, h));
  x = ggml_add(context, x, ops::linear(graph, layer.down, gated));
  graph.watch(x);
  graph.effect(ggml_cpy(context, graph.name("out", x), state));
  return graph.run(cancel);
}

Result<std::vector<float>> TextModel::encode(std::span<const std::int32_t> ids, std::span<const std::array<std::int32_t, 3>> positions,
                                             const CancelToken* cancel, const std::function<void(int, int)>& progress) const {
  if (ids.empty()) return Error{ErrorCode::usage, "prompt is empty; give at least one character", "prompt", ""};
  if (ids.size() != positions.size()) return Error{ErrorCode::failure, "token ids and positions differ in number", "prompt", ""};
  const auto rows = static_cast<std::int64_t>(ids.size());
  if (rows > config_.max_positions)
    return Error{ErrorCode::usage, fmt::format("the prompt has {} tokens, the model has {} positions", rows, config_.max_positions), "prompt", "shorten it"};
  TRITIUM_TRY_ASSIGN(const std::vector<float> embedded, embed(ids));
  TensorPool state_pool(1);
  ggml_tensor* state = state_pool.add("text.state", GGML_TYPE_F32, {config_.hidden, rows});
  TRITIUM_TRY(state_pool.allocate(*device_, "the text encoder's state"));
  upload(state, embedded);
  const std::vector<float> angles = rotary_angles(config_, positions);
  for (int i = 0; i < config_.layers; ++i) {
    TRITIUM_TRY(run_layer(i, state, angles, cancel));
    if (progress) progress(i + 1, config_.layers);
  }
  return download(state);
}

}  // namespace tritium
