// The two VAEs of a synthetic model.
#include "pipeline/synth_list.h"
#include "pipeline/synth_tensors.h"

#include <fmt/format.h>
#include <array>
#include <cmath>
#include <numbers>

namespace tritium {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr float kResidualGain = 0.5f, kBranchGain = 0.2f, kOutputGain = 0.15f;  // the last: sound that is not clipped

void add_residual_block(SynthList& list, const std::string& p, std::int64_t in, std::int64_t out) {
  list.norm_with_bias(p + "norm1", in);
  list.norm_with_bias(p + "norm2", out);
  list.layer(p + "conv1", {out, in, 3, 3, 3});
  list.layer(p + "conv2", {out, out, 3, 3, 3}, kResidualGain);
  if (in != out) list.layer(p + "nin_shortcut", {out, in, 1, 1, 1});
}

void add_video_encoder(SynthList& list, const video_vae::VideoVaeConfig& c) {
  std::int64_t channels = c.channels;
  list.layer("encoder.conv_in", {channels, video_vae::kPixelChannels, 3, 3, 3});
  for (std::size_t level = 0; level < c.channel_factors.size(); ++level) {
    const std::int64_t out = std::int64_t{c.channels} * c.channel_factors[level];
    for (int block = 0; block < c.residual_blocks; ++block) {
      add_residual_block(list, fmt::format("encoder.down.{}.block.{}.", level, block), channels, out);
      channels = out;
    }
    if (c.space_down[level] * c.time_down[level] > 1)
      list.layer(fmt::format("encoder.down.{}.downsample.conv", level), {channels, channels, 3, 3, 3});
  }
  list.norm_with_bias("encoder.norm_out", channels);
  list.layer("encoder.conv_out", {2 * c.z_channels, channels, 3, 3, 3});
  list.layer("quant_conv", {2 * c.latent_channels, 2 * c.z_channels, 1, 1, 1});
}

void add_video_decoder(SynthList& list, const video_vae::VideoVaeConfig& c) {
  const std::int64_t hidden = c.hidden(), inner = video_vae::kFeedForwardFactor * hidden;
  list.layer("post_quant_conv", {c.z_channels, c.latent_channels, 1, 1, 1});
  list.normal("decoder.register_tokens", {1, video_vae::kRegisterTokens, hidden}, 0, 1);
  list.normal("decoder.mask_token", {1, 1, hidden}, 0, 1);
  list.layer("decoder.x_embedder", {hidden, c.z_channels});
  for (int i = 0; i < c.layers; ++i) {
    const std::string p = fmt::format("decoder.transformer_blocks.{}.", i);
    list.block_norm(p + "norm1", hidden);
    list.block_norm(p + "norm2", hidden);
    list.normal(p + "scale1", {hidden}, 0.2f, 0.02f);
    list.normal(p + "scale2", {hidden}, 0.2f, 0.02f);
    list.layer(p + "attn.to_qkv", {3 * hidden, hidden});
    list.layer(p + "attn.to_out", {hidden, hidden});
    list.layer(p + "ff.w1", {2 * inner, hidden});
    list.layer(p + "ff.w2", {hidden, inner});
  }
  list.norm_with_bias("decoder.norm_out", hidden);
  list.layer("decoder.proj_out", {c.patch_features(), hidden});
}

// Weight-normalized: directions and lengths; a row of length `gain` gives as much as it gets.
void add_normalized(SynthList& list, const std::string& name, Shape shape, std::int64_t bias, float gain) {
  list.normal(name + ".weight_g", {shape[0], 1, 1}, gain, 0.05f * gain);
  list.normal(name + ".weight_v", std::move(shape), 0, 1);
  if (bias > 0) list.bias(name + ".bias", bias);
}

// Modified Bessel function of the first kind, order 0.
double bessel(double x) {
  double term = 1, sum = 1;
  for (int k = 1; k < 40; ++k) sum += term *= (x / (2 * k)) * (x / (2 * k));
  return sum;
}

// The low pass of the alias-free activation, spec/vae.md §2.5: a sinc of cutoff 0.25 under a Kaiser window.
std::vector<float> low_pass() {
  constexpr double kBeta = 4.6638, kHalf = (audio_vae::kFilterTaps - 1) / 2.0;
  std::vector<double> taps;
  double sum = 0;
  for (int i = 0; i < audio_vae::kFilterTaps; ++i) {
    const double t = i - kHalf, x = std::numbers::pi * 0.5 * t;
    taps.push_back(bessel(kBeta * std::sqrt(1 - t * t / (kHalf * kHalf))) * std::sin(x) / x);
    sum += taps.back();
  }
  std::vector<float> out;
  for (const double tap : taps) out.push_back(static_cast<float>(tap / sum));
  return out;
}

void add_activation(SynthList& list, const std::string& name, std::int64_t channels) {
  list.normal(name + ".act.alpha", {channels}, 0, 0.1f);
  list.normal(name + ".act.beta", {channels}, 0, 0.1f);
  for (const char* filter : {".upsample.filter", ".downsample.lowpass.filter"})
    list.add(name + filter, {1, 1, audio_vae::kFilterTaps}, {0, 0, 0, 0, low_pass()});
}

void add_audio_encoder(SynthList& list, const audio_vae::AudioVaeConfig& c) {
  constexpr std::array<int, 3> kUnits = {0, 1, 2};
  std::int64_t channels = c.encoder_dim;
  int block = 0;
  const auto next = [&] { return fmt::format("encoder.block.{}", block++); };
  const auto alpha = [&](const std::string& name, std::int64_t size) { list.normal(name + ".alpha", {1, size, 1}, 1, 0.1f); };
  add_normalized(list, next(), {channels, 1, 7}, channels, 1);
  for (const int rate : c.encoder_rates) {
    const std::string stage = next();
    for (const int i : kUnits) {
      const std::string unit = fmt::format("{}.block.{}.block", stage, i);
      alpha(unit + ".0", channels);
      add_normalized(list, unit + ".1", {channels, channels, 7}, channels, 1);
      alpha(unit + ".2", channels);
      add_normalized(list, unit + ".3", {channels, channels, 1}, channels, kResidualGain);
    }
    alpha(fmt::format("{}.block.{}", stage, kUnits.size()), channels);
    add_normalized(list, fmt::format("{}.block.{}", stage, kUnits.size() + 1), {2 * channels, channels, 2 * rate}, 2 * channels, 1);
    channels *= 2;
  }
  alpha(next(), channels);
  add_normalized(list, next(), {c.latent_dim, channels, 3}, c.latent_dim, 1);
}

void add_projection(SynthList& list, const audio_vae::AudioVaeConfig& c) {
  const std::int64_t in = c.latent_dim, out = c.latent_channels, inner = 2 * out;
  const std::string p = "pre_block.";
  list.norm_with_bias(p + "norm1", in);
  list.norm_with_bias(p + "norm2", out);
  list.norm_with_bias(p + "norm3", in);
  list.matrix(p + "attn.qkv.weight", {3 * in, in});
  list.bias(p + "attn.q_bias", in);
  list.bias(p + "attn.v_bias", in);
  list.add(p + "attn.zero_k_bias", {in}, {0, 0, 0, 0, {0.0f}});
  list.layer(p + "attn.proj", {out, out});
  list.layer(p + "proj", {out, in});
  list.norm_with_bias(p + "mlp.norm", out);
  list.layer(p + "mlp.w0", {inner, out});
  list.layer(p + "mlp.w1", {inner, out});
  list.layer(p + "mlp.w2", {out, inner});
  for (const char* head : {"mean_proj", "logs_proj"}) list.layer(head, {out, out, 1});
}

void add_audio_decoder(SynthList& list, const audio_vae::AudioVaeConfig& c) {
  list.layer("dec_in_proj", {c.latent_dim, c.latent_channels, 1});
  add_normalized(list, "decoder.conv_pre", {c.decoder_dim, c.latent_dim, audio_vae::kEdgeKernel}, c.decoder_dim, 1);
  for (std::size_t i = 0; i < c.decoder_rates.size(); ++i) {
    const std::int64_t in = c.decoder_channels(i), out = c.decoder_channels(i + 1);
    // Transposed: a row of weight_v belongs to an input, and every output hears kernel/rate of its taps.
    add_normalized(list, fmt::format("decoder.ups.{}.0", i), {in, out, c.decoder_kernel_sizes[i]}, out, 1);
    for (std::size_t j = 0; j < c.resblock_kernel_sizes.size(); ++j) {
      const std::string block = fmt::format("decoder.resblocks.{}.", c.resblock_kernel_sizes.size() * i + j);
      for (std::size_t k = 0; k < c.resblock_dilation_sizes[j].size(); ++k) {
        const Shape shape{out, out, c.resblock_kernel_sizes[j]};
        add_activation(list, fmt::format("{}activations.{}", block, 2 * k), out);
        add_normalized(list, fmt::format("{}convs1.{}", block, k), shape, out, 1);
        add_activation(list, fmt::format("{}activations.{}", block, 2 * k + 1), out);
        add_normalized(list, fmt::format("{}convs2.{}", block, k), shape, out, kBranchGain);
      }
    }
  }
  const std::int64_t last = c.decoder_channels(c.decoder_rates.size());
  add_activation(list, "decoder.activation_post", last);
  add_normalized(list, "decoder.conv_post", {1, last, audio_vae::kEdgeKernel}, 0, kOutputGain);
}

}  // namespace

std::vector<SynthTensor> synth_video_vae(const video_vae::VideoVaeConfig& config) {
  SynthList list(DType::f16);
  add_video_encoder(list, config);
  add_video_decoder(list, config);
  return std::move(list.tensors);
}

std::vector<SynthTensor> synth_audio_vae(const audio_vae::AudioVaeConfig& config) {
  SynthList list(DType::f32);
  add_audio_encoder(list, config);
  add_projection(list, config);
  add_audio_decoder(list, config);
  return std::move(list.tensors);
}

}  // namespace tritium
