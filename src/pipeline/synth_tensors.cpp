#include "pipeline/synth_tensors.h"

#include "pipeline/synth_list.h"

#include <fmt/format.h>
#include <cmath>
#include <numbers>

namespace tritium {
namespace {

constexpr float kResidualGain = 0.5f;  // of what adds to a residual stream

// Layers whose weights the official files hold as float32.
void f32_layer(SynthList& list, const std::string& name, std::int64_t out, std::int64_t in, float gain = 1) {
  list.add_f32(name + ".weight", {out, in}, {0, gain / static_cast<float>(std::sqrt(static_cast<double>(in))), 0, 0, {}});
  list.add_f32(name + ".bias", {out}, {0, 0.02f, 0, 0, {}});
}

void add_dit_block(SynthList& list, const std::string& p, const DitConfig& c) {
  list.block_norm(p + "norm1", c.hidden);
  list.block_norm(p + "norm2", c.hidden);
  list.norm(p + "attn.q_norm", c.head_dim);
  list.norm(p + "attn.k_norm", c.head_dim);
  list.matrix(p + "attn.qkv_proj.weight", {3 * c.inner(), c.hidden});
  list.matrix(p + "attn.out_proj.weight", {c.hidden, c.inner()}, kResidualGain);
  list.matrix(p + "mlp.fc1.weight", {2 * c.ffn, c.hidden});
  list.matrix(p + "mlp.fc2.weight", {c.hidden, c.ffn}, kResidualGain);
}

// Shifts, scales and gates of about 0.2, a part of them depending on the time.
void add_modulation(SynthList& list, const std::string& name, std::int64_t out, std::int64_t in) {
  list.matrix(name + ".weight", {out, in}, 0.2f);
  list.normal(name + ".bias", {out}, 0, 0.2f);
}

// A curve over t that is smooth and of the size that normal activations have: cosines of rising frequency and falling size.
std::vector<float> curve_table(std::int64_t points, std::int64_t rank) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < points; ++i)
    for (std::int64_t r = 0; r < rank; ++r) {
      const double t = static_cast<double>(i) / static_cast<double>(points - 1), order = static_cast<double>(r);
      out.push_back(static_cast<float>(std::cos(std::numbers::pi * order * t + order) / (1 + order)));
    }
  return out;
}

std::vector<float> inverse_frequencies(std::int64_t count) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(count))));
  return out;
}

void add_text_layer(SynthList& list, const std::string& p, const TextConfig& c) {
  list.block_norm(p + "input_layernorm", c.hidden);
  list.block_norm(p + "post_attention_layernorm", c.hidden);
  list.norm(p + "self_attn.q_norm", c.head_dim);
  list.norm(p + "self_attn.k_norm", c.head_dim);
  list.matrix(p + "self_attn.q_proj.weight", {c.heads * c.head_dim, c.hidden});
  list.matrix(p + "self_attn.k_proj.weight", {c.kv_heads * c.head_dim, c.hidden});
  list.matrix(p + "self_attn.v_proj.weight", {c.kv_heads * c.head_dim, c.hidden});
  list.matrix(p + "self_attn.o_proj.weight", {c.hidden, c.heads * c.head_dim}, kResidualGain);
  list.matrix(p + "mlp.gate_proj.weight", {c.ffn, c.hidden});
  list.matrix(p + "mlp.up_proj.weight", {c.ffn, c.hidden});
  list.matrix(p + "mlp.down_proj.weight", {c.hidden, c.ffn}, kResidualGain);
}

void add_vision(SynthList& list, const VisionConfig& c) {
  const std::string visual = "model.visual.";
  const std::int64_t joined = c.hidden * c.patch.group();
  list.layer(visual + "patch_embed.proj", {c.hidden, 3, c.patch.frames, c.patch.side, c.patch.side});
  list.normal(visual + "pos_embed.weight", {c.table_side * c.table_side, c.hidden}, 0, 0.2f);
  for (int i = 0; i < c.depth; ++i) {
    const std::string p = fmt::format("{}blocks.{}.", visual, i);
    list.norm_with_bias(p + "norm1", c.hidden);
    list.norm_with_bias(p + "norm2", c.hidden);
    list.layer(p + "attn.qkv", {3 * c.hidden, c.hidden});
    list.layer(p + "attn.proj", {c.hidden, c.hidden}, kResidualGain);
    list.layer(p + "mlp.linear_fc1", {c.ffn, c.hidden});
    list.layer(p + "mlp.linear_fc2", {c.hidden, c.ffn}, kResidualGain);
  }
  const auto merger = [&](const std::string& p, std::int64_t width) {
    list.norm_with_bias(p + "norm", width);
    list.layer(p + "linear_fc1", {joined, joined});
    list.layer(p + "linear_fc2", {c.out_hidden, joined});
  };
  merger(visual + "merger.", c.hidden);
  for (std::size_t i = 0; i < c.deepstack_blocks.size(); ++i) merger(fmt::format("{}deepstack_merger_list.{}.", visual, i), joined);
}

}  // namespace

std::vector<SynthTensor> synth_dit(const DitConfig& c) {
  SynthList list(DType::bf16);
  f32_layer(list, "video_patch_proj", c.hidden, c.video_features);
  f32_layer(list, "audio_patch_proj", c.hidden, c.audio_features);
  list.layer("condition_proj", {c.hidden, c.text_dim});
  if (c.pruned()) {
    list.add_f32("adaln_t_table", {c.curve_points, c.time_dim}, {0, 0, 0, 0, curve_table(c.curve_points, c.time_dim)});
  } else {
    f32_layer(list, "time_embedder.proj_in", c.time_hidden, c.time_input);
    f32_layer(list, "time_embedder.proj_out", c.time_dim, c.time_hidden, 2);
  }
  list.add_f32("rope.inv_freq", {c.rope_frequencies}, {0, 0, 0, 0, inverse_frequencies(c.rope_frequencies)});
  for (int i = 0; i < c.refiner_layers; ++i) add_dit_block(list, fmt::format("token_refiner.blocks.{}.", i), c);
  list.norm("token_refiner.final_norm", c.hidden);
  for (int i = 0; i < c.layers; ++i) {
    const std::string p = fmt::format("blocks.{}.", i);
    add_dit_block(list, p, c);
    add_modulation(list, p + "adaln_proj.linear", 18 * c.hidden, c.time_dim);
  }
  list.norm("final_layer.norm", c.hidden);
  add_modulation(list, "final_layer.adaln_proj.linear", 2 * c.hidden, c.time_dim);
  f32_layer(list, "final_layer.video_out", c.video_features, c.hidden);
  f32_layer(list, "final_layer.audio_out", c.audio_features, c.hidden);
  return std::move(list.tensors);
}

std::vector<SynthTensor> synth_text(const TextConfig& text, const VisionConfig& vision) {
  SynthList list(DType::bf16);
  list.normal("model.language_model.embed_tokens.weight", {text.vocabulary, text.hidden}, 0, 1);
  for (int i = 0; i < text.layers; ++i) add_text_layer(list, fmt::format("model.language_model.layers.{}.", i), text);
  add_vision(list, vision);
  return std::move(list.tensors);
}

}  // namespace tritium
