#include "model/audio_vae/encoder.h"

#include "base/try.h"
#include "model/audio_vae/signal_stages.h"
#include "ops/attention.h"
#include "ops/norm.h"
#include "ops/strided_conv1d.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numbers>

namespace tritium::audio_vae {
namespace {

constexpr const char* kPartName = "audio VAE encoder";
constexpr float kLayerNormEps = 1e-5f;

ggml_tensor* convolve(Graph& graph, const ops::Conv1d& layer, ggml_tensor* x, int dilation = 1) {
  return ops::conv1d(graph, layer, x, static_cast<int>(layer.weight->ne[0] - 1) * dilation / 2, dilation);
}

ggml_tensor* transposed(Graph& graph, ggml_tensor* x) { return ggml_cont(graph.context(), ggml_transpose(graph.context(), x)); }

// The functions down to build_output work on signals [length, channels]; `name` is that of the module within the reference.
ggml_tensor* build_unit(Graph& graph, const EncoderUnit& unit, const std::string& name, ggml_tensor* x) {
  ggml_tensor* y = convolve(graph, unit.first, ops::pointwise_snake(graph, unit.first_activation, x), unit.dilation);
  y = convolve(graph, unit.second, ops::pointwise_snake(graph, unit.second_activation, y));
  return graph.name(name, ggml_add(graph.context(), x, y));
}

ggml_tensor* build_stage(Graph& graph, const EncoderStage& stage, const std::string& name, ggml_tensor* x) {
  for (std::size_t i = 0; i < stage.units.size(); ++i) x = build_unit(graph, stage.units[i], fmt::format("{}.block.{}", name, i), x);
  return ops::strided_conv1d(graph, stage.down, ops::pointwise_snake(graph, stage.activation, x), stage.rate);
}

ggml_tensor* build_output(Graph& graph, const EncoderWeights& weights, const std::string& activation_name, ggml_tensor* x) {
  return convolve(graph, weights.conv_out, graph.name(activation_name, ops::pointwise_snake(graph, weights.activation_out, x)));
}

// The functions from here on work on rows [features, length].
ggml_tensor* normalize(Graph& graph, const LayerNorm& norm, ggml_tensor* x) {
  return ops::layer_norm(graph, x, norm.weight, norm.bias, kLayerNormEps);
}

ggml_tensor* build_attention(Graph& graph, const AttentionProjection& layer, std::int64_t heads, const std::string& name, ggml_tensor* x) {
  ggml_context* context = graph.context();
  const std::int64_t features = x->ne[0], head_dim = features / heads, length = x->ne[1];
  ggml_tensor* qkv = ops::linear(graph, layer.qkv, x);
  const auto part = [&](std::size_t index) {  // [head_dim, heads, length], a view
    return ggml_view_3d(context, qkv, head_dim, heads, length, static_cast<std::size_t>(head_dim) * qkv->nb[0], qkv->nb[1],
                        index * static_cast<std::size_t>(features) * qkv->nb[0]);
  };
  const auto by_head = [&](ggml_tensor* t) { return ggml_permute(context, t, 0, 2, 1, 3); };  // as the reference has them
  graph.name(name + ".q", by_head(part(0)));
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  ggml_tensor* mixed = ops::attention(graph, part(0), part(1), part(2), scale, ops::AttentionMask::causal);
  graph.name(name + ".o", by_head(ggml_reshape_3d(context, mixed, head_dim, heads, length)));
  return graph.name(name, ops::linear(graph, layer.attention, ops::linear(graph, layer.pool, mixed)));
}

// The tanh approximation, written as x·sigmoid(2u) with u = sqrt(2/π)·(x + 0.044715·x³).
ggml_tensor* gelu_tanh(Graph& graph, ggml_tensor* x) {
  ggml_context* context = graph.context();
  const float factor = 2.0f * std::sqrt(2.0f / std::numbers::pi_v<float>);
  ggml_tensor* slope = ggml_scale_bias(context, ggml_sqr(context, x), 0.044715f * factor, factor);
  return ggml_mul(context, x, ggml_sigmoid(context, ggml_mul(context, slope, x)));
}

ggml_tensor* build_mlp(Graph& graph, const AttentionProjection& layer, ggml_tensor* x) {
  x = normalize(graph, layer.mlp_norm, x);
  ggml_tensor* gate = gelu_tanh(graph, ops::linear(graph, layer.w0, x));
  return ops::linear(graph, layer.w2, ggml_mul(graph.context(), gate, ops::linear(graph, layer.w1, x)));
}

ggml_tensor* build_projection(Graph& graph, const EncoderWeights& weights, std::int64_t heads, ggml_tensor* x) {
  const AttentionProjection& layer = weights.pre_block;
  ggml_context* context = graph.context();
  const auto named = [&](const char* name, ggml_tensor* t) { return graph.name(std::string("pre_block") + name, t); };
  ggml_tensor* attended = build_attention(graph, layer, heads, "pre_block.attn", named(".norm1", normalize(graph, layer.norm1, x)));
  ggml_tensor* direct = named(".proj", ops::linear(graph, layer.proj, named(".norm3", normalize(graph, layer.norm3, x))));
  ggml_tensor* u = ggml_add(context, direct, attended);
  ggml_tensor* refined = named(".mlp", build_mlp(graph, layer, named(".norm2", normalize(graph, layer.norm2, u))));
  return ops::linear(graph, weights.mean_proj, named("", ggml_add(context, u, refined)));
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

Result<void> check_config(const AudioVaeConfig& config) {
  if (std::all_of(config.encoder_rates.begin(), config.encoder_rates.end(), [](int rate) { return rate >= 2; })) return {};
  return Error{ErrorCode::model, "a stage of the audio encoder that does not shorten the sound is not supported: expected rates from 2",
               "encoder_rates", ""};
}

Result<void> check_sound(std::span<const float> left, std::span<const float> right) {
  const auto fail = [](std::string message) { return Error{ErrorCode::usage, std::move(message), "audio", ""}; };
  if (left.empty()) return fail("the sound has no samples");
  if (left.size() != right.size()) return fail(fmt::format("the left channel has {} samples, the right one {}", left.size(), right.size()));
  if (!all_finite(left) || !all_finite(right)) return fail("the sound contains samples that are not finite");
  return {};
}

}  // namespace

AudioEncoder::AudioEncoder(Device& device, AudioVaeConfig config, EncoderWeights weights, TensorPool pool)
    : device_(&device), config_(std::move(config)), weights_(std::move(weights)), pool_(std::move(pool)) {}

Result<std::uint64_t> AudioEncoder::check(const WeightPart& part, const AudioVaeConfig& config) {
  TRITIUM_TRY(check_config(config));
  ParamLoader loader(part, kPartName, MatrixPrecision::f32);
  declare_encoder(loader, part, config);
  TRITIUM_TRY(loader.check());
  return loader.bytes();
}

Result<AudioEncoder> AudioEncoder::load(Device& device, const WeightPart& part, const AudioVaeConfig& config, const CancelToken* cancel,
                                        const LoadProgress& progress) {
  TRITIUM_TRY(check_config(config));
  ParamLoader loader(part, kPartName, MatrixPrecision::f32);
  EncoderWeights weights = declare_encoder(loader, part, config);
  TRITIUM_TRY_ASSIGN(TensorPool pool, loader.load(device, cancel, progress));
  return AudioEncoder(device, config, std::move(weights), std::move(pool));
}

std::int64_t AudioEncoder::latents_of_samples(const AudioVaeConfig& config, std::int64_t samples) {
  return (samples + config.samples_per_latent() - 1) / config.samples_per_latent();
}

Result<EncodedAudio> AudioEncoder::encode(std::span<const float> left, std::span<const float> right, const CancelToken* cancel,
                                          const EncodeProgress& progress) const {
  TRITIUM_TRY(check_sound(left, right));
  const bool mono = std::equal(left.begin(), left.end(), right.begin());
  const int total = (mono ? 1 : kChannels) * (static_cast<int>(weights_.stages.size()) + 3);
  int done = 0;
  const auto stage_done = [&] {
    ++done;
    if (progress) progress(done, total);
  };
  EncodedAudio out;
  out.length = latents_of_samples(config_, static_cast<std::int64_t>(left.size()));
  TRITIUM_TRY_ASSIGN(out.values, encode_channel("audio_vae.encoder.left", left, cancel, stage_done));
  std::vector<float> second = out.values;
  if (!mono) { TRITIUM_TRY_ASSIGN(second, encode_channel("audio_vae.encoder.right", right, cancel, stage_done)); }
  out.values.insert(out.values.end(), second.begin(), second.end());
  return out;
}

Result<std::vector<float>> AudioEncoder::encode_channel(const std::string& scope, std::span<const float> samples, const CancelToken* cancel,
                                                        const std::function<void()>& stage_done) const {
  std::int64_t length = latents_of_samples(config_, static_cast<std::int64_t>(samples.size())) * config_.samples_per_latent();
  std::vector<float> signal(samples.begin(), samples.end());
  signal.resize(static_cast<std::size_t>(length), 0.0f);
  SignalStages staged{*device_, scope, std::move(signal), length, cancel, stage_done};
  const auto module = [](std::size_t block) { return fmt::format("encoder.block.{}", block); };
  TRITIUM_TRY(staged.run("input", module(0), [&](Graph& graph, ggml_tensor* x) { return convolve(graph, weights_.conv_in, x); }));
  const std::size_t stages = weights_.stages.size();
  for (std::size_t i = 0; i < stages; ++i)
    TRITIUM_TRY(staged.run(fmt::format("stage{}", i), module(i + 1),
                           [&](Graph& graph, ggml_tensor* x) { return build_stage(graph, weights_.stages[i], module(i + 1), x); }));
  TRITIUM_TRY(staged.run("output", module(stages + 2),
                         [&](Graph& graph, ggml_tensor* x) { return build_output(graph, weights_, module(stages + 1), x); }));
  TRITIUM_TRY(staged.run("projection", "mean_proj", [&](Graph& graph, ggml_tensor* x) {
    return transposed(graph, build_projection(graph, weights_, config_.attention_heads, transposed(graph, x)));
  }));
  for (std::size_t i = 0; i < staged.signal.size(); ++i) {
    const std::size_t c = i / static_cast<std::size_t>(staged.length);
    staged.signal[i] = (staged.signal[i] - config_.latents_mean[c]) / config_.latents_std[c];
  }
  return std::move(staged.signal);
}

}  // namespace tritium::audio_vae
