#include "model/video_vae/transformer.h"

#include "base/try.h"
#include "ops/attention.h"
#include "ops/norm.h"
#include "ops/rope.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numbers>

namespace tritium::video_vae {
namespace {

// A matrix kept in float32; `shape` is the file's, which may carry trailing ones.
ops::Linear float_linear(ParamLoader& loader, const std::string& name, std::int64_t in, std::int64_t out, std::vector<std::int64_t> shape) {
  return {loader.float_matrix(name + ".weight", out, in, std::move(shape)), loader.tensor(name + ".bias", {out})};
}

// The reference decodes under float16 autocast, also with float32 weights (spec/vae.md §1.12).
ops::Linear block_linear(ParamLoader& loader, const std::string& name, std::int64_t in, std::int64_t out) {
  return {loader.autocast_matrix(name + ".weight", out, in), loader.tensor(name + ".bias", {out})};
}

ggml_tensor* suffix_rows(ParamLoader& loader, std::int64_t hidden) {
  const std::string name = "decoder.register_tokens";
  loader.require(name, {1, kRegisterTokens, hidden});
  return loader.computed(name, {kSuffixRows, hidden}, [name, hidden](const WeightPart& part) -> Result<std::vector<float>> {
    TRITIUM_TRY_ASSIGN(std::vector<float> rows, part.read_f32(name));
    rows.resize(static_cast<std::size_t>(kSuffixRows * hidden), 0.0f);
    return rows;
  });
}

DecoderBlock declare_block(ParamLoader& loader, int layer, std::int64_t hidden) {
  const std::string name = fmt::format("decoder.transformer_blocks.{}.", layer);
  const std::int64_t inner = kFeedForwardFactor * hidden;
  return {loader.tensor(name + "norm1.weight", {hidden}),
          loader.tensor(name + "norm2.weight", {hidden}),
          loader.tensor(name + "scale1", {hidden}),
          loader.tensor(name + "scale2", {hidden}),
          block_linear(loader, name + "attn.to_qkv", hidden, 3 * hidden),
          block_linear(loader, name + "attn.to_out", hidden, hidden),
          block_linear(loader, name + "ff.w1", hidden, 2 * inner),
          block_linear(loader, name + "ff.w2", inner, hidden)};
}

// Adds one block to the graph; x and the result are [hidden, rows].
ggml_tensor* build_block(Graph& graph, const DecoderBlock& block, const VideoVaeConfig& config, const ops::RotaryTable& table,
                         ggml_tensor* x, const std::string& prefix) {
  ggml_context* context = graph.context();
  const auto named = [&](const char* name, ggml_tensor* tensor) { return graph.name(prefix + name, tensor); };
  ggml_tensor* normed = named("norm1", ops::rms_norm(graph, x, block.norm1, kTransformerNormEps));
  ggml_tensor* qkv = named("to_qkv", ops::linear(graph, block.to_qkv, normed));
  const auto part = [&](int index) {  // [head_dim, heads, rows], a view: heads are 3*head_dim apart
    const std::size_t head_bytes = static_cast<std::size_t>(config.head_dim) * qkv->nb[0];
    return ggml_view_3d(context, qkv, config.head_dim, config.heads, qkv->ne[1], 3 * head_bytes, qkv->nb[1],
                        static_cast<std::size_t>(index) * head_bytes);
  };
  const auto rotated = [&](int index) { return ops::normalised_heads(graph, part(index), nullptr, kTransformerNormEps, &table); };
  ggml_tensor* q = named("q_rope", rotated(0));
  ggml_tensor* k = named("k_rope", rotated(1));
  ggml_tensor* v = named("v", part(2));
  const float scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  ggml_tensor* heads = named("attn_heads_out", ops::attention(graph, q, k, v, scale, ops::AttentionMask::none, ops::kMaxAttentionScores,
                                                              ops::product_precision(block.to_qkv)));
  ggml_tensor* attended = named("attn", ops::linear(graph, block.to_out, heads));
  x = ggml_add(context, x, ggml_mul(context, attended, block.scale1));

  normed = named("norm2", ops::rms_norm(graph, x, block.norm2, kTransformerNormEps));
  ggml_tensor* gated = ops::silu_gate(graph, ops::linear(graph, block.w1, normed));
  ggml_tensor* fed = named("ff", ops::linear(graph, block.w2, gated));
  return named("out", ggml_add(context, x, ggml_mul(context, fed, block.scale2)));
}

}  // namespace

DecoderWeights declare_decoder(ParamLoader& loader, const VideoVaeConfig& config) {
  const std::int64_t latent = config.latent_channels, z = config.z_channels, hidden = config.hidden(), patch = config.patch_features();
  DecoderWeights weights;
  weights.post_quant_conv = float_linear(loader, "post_quant_conv", latent, z, {z, latent, 1, 1, 1});
  weights.x_embedder = float_linear(loader, "decoder.x_embedder", z, hidden, {hidden, z});
  weights.suffix = suffix_rows(loader, hidden);
  for (int layer = 0; layer < config.layers; ++layer) weights.blocks.push_back(declare_block(loader, layer, hidden));
  weights.norm_out_weight = loader.tensor("decoder.norm_out.weight", {hidden});
  weights.norm_out_bias = loader.tensor("decoder.norm_out.bias", {hidden});
  weights.proj_out = float_linear(loader, "decoder.proj_out", hidden, patch, {patch, hidden});
  return weights;
}

std::vector<double> rotary_frequencies(const VideoVaeConfig& config) {
  std::vector<double> out(static_cast<std::size_t>(config.rotary_pairs() / 3));
  for (std::size_t j = 0; j < out.size(); ++j)
    out[j] = std::pow(config.rope_theta, -static_cast<double>(j) / static_cast<double>(out.size()));
  return out;
}

std::vector<float> rotary_angles(const VideoVaeConfig& config, const TileShape& shape) {
  const std::vector<double> frequencies = rotary_frequencies(config);
  const auto pairs = static_cast<std::size_t>(config.rotary_pairs());
  std::vector<float> angles;
  angles.reserve((static_cast<std::size_t>(shape.rows()) + kSuffixRows) * pairs);
  const auto add_axis = [&](int index, int size) {
    const double coordinate = 2.0 * (index + 0.5) / size - 1.0;
    for (const double frequency : frequencies) angles.push_back(static_cast<float>(2.0 * std::numbers::pi * coordinate * frequency));
  };
  for (int t = 0; t < shape.tokens; ++t)
    for (int y = 0; y < shape.height; ++y)
      for (int x = 0; x < shape.width; ++x) {
        add_axis(t, shape.tokens);
        add_axis(y, shape.height);
        add_axis(x, shape.width);
      }
  angles.resize(angles.size() + kSuffixRows * pairs, 0.0f);
  return angles;
}

ggml_tensor* build_tile(Graph& graph, const DecoderWeights& weights, const VideoVaeConfig& config, const TileShape& shape,
                        std::span<const float> latents, int first_token, int end_token) {
  ggml_context* context = graph.context();
  ggml_tensor* x = graph.name("z_denorm", graph.input("z_denorm", latents, {config.latent_channels, shape.rows()}));
  x = graph.name("post_quant_conv", ops::linear(graph, weights.post_quant_conv, x));
  x = graph.name("x_embedder", ops::linear(graph, weights.x_embedder, x));
  x = graph.name("tokens_in", ggml_concat(context, x, weights.suffix, 1));
  const ops::RotaryTable table = ops::rotary_table(graph, rotary_angles(config, shape), config.rotary_pairs());
  for (std::size_t layer = 0; layer < weights.blocks.size(); ++layer)
    x = build_block(graph, weights.blocks[layer], config, table, x, fmt::format("block{}.", layer));
  x = graph.name("norm_out", ops::layer_norm(graph, x, weights.norm_out_weight, weights.norm_out_bias, kTransformerNormEps));
  ggml_tensor* needed = ggml_view_2d(context, x, x->ne[0], (end_token - first_token) * shape.positions(), x->nb[1],
                                     static_cast<std::size_t>(first_token * shape.positions()) * x->nb[1]);
  return graph.output("proj_out", ops::linear(graph, weights.proj_out, needed));
}

std::size_t tile_graph_nodes(const VideoVaeConfig& config, const TileShape& shape) {
  const std::int64_t rows = shape.rows() + kSuffixRows;
  const std::int64_t step = std::clamp<std::int64_t>(ops::kMaxAttentionScores / (rows * config.heads), 1, rows);
  const auto attention_steps = static_cast<std::size_t>((rows + step - 1) / step);
  return 256 + static_cast<std::size_t>(config.layers) * (128 + 16 * attention_steps);
}

std::vector<float> unpatchify(const VideoVaeConfig& config, const TileShape& shape, std::span<const float> rows, int first_token,
                              std::span<const int> frames) {
  const auto patch = static_cast<std::size_t>(config.spatial_ratio()), ratio = static_cast<std::size_t>(config.temporal_ratio());
  const auto height = static_cast<std::size_t>(shape.height), width = static_cast<std::size_t>(shape.width);
  const auto features = static_cast<std::size_t>(config.patch_features());
  std::vector<float> out(frames.size() * kPixelChannels * height * patch * width * patch);
  float* line = out.data();  // lines of the result in order: frame, channel, row of positions, row within a patch
  for (const int frame : frames) {
    const std::size_t token = static_cast<std::size_t>(frame) / ratio - static_cast<std::size_t>(first_token);
    const std::size_t within = static_cast<std::size_t>(frame) % ratio;
    for (std::size_t c = 0; c < kPixelChannels; ++c)
      for (std::size_t y = 0; y < height; ++y)
        for (std::size_t py = 0; py < patch; ++py, line += width * patch)
          for (std::size_t x = 0; x < width; ++x) {
            const std::size_t row = (token * height + y) * width + x;
            const std::size_t feature = ((c * ratio + within) * patch + py) * patch;
            std::copy_n(&rows[row * features + feature], patch, line + x * patch);
          }
  }
  return out;
}

}  // namespace tritium::video_vae
