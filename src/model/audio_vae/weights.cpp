#include "model/audio_vae/weights.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium::audio_vae {
namespace {

using Shape = std::vector<std::int64_t>;
using Transform = ParamLoader::Transform;

class Declaration {
 public:
  Declaration(ParamLoader& loader, const WeightPart& part) : loader_(loader), part_(part) {}

  ops::Conv1d plain_convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel) {
    return {loader_.tensor(name + ".weight", {out, in, kernel}), loader_.tensor(name + ".bias", {out})};
  }

  ops::Conv1d convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel, bool bias = true) {
    const Shape shape{out, in, kernel};
    return {normalized_weight(name, shape, shape, {}), bias ? loader_.tensor(name + ".bias", {out}) : nullptr};
  }

  ops::Conv1d upsampling(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t rate) {
    const auto rearrange = [=](std::vector<float> w) { return ops::polyphase_weights(w, in, out, kernel, rate); };
    const Shape stored{out * rate, in, ops::polyphase_taps(kernel, rate)};
    return {normalized_weight(name, {in, out, kernel}, stored, rearrange), loader_.tensor(name + ".bias", {out})};
  }

  ops::AliasFreeSnake activation(const std::string& name, std::int64_t channels) {
    const Shape filter{1, 1, kFilterTaps}, per_channel{channels};
    return {
        from(name + ".act.alpha", per_channel, per_channel,
             [](std::vector<float> v) { return each(std::move(v), [](float a) { return std::exp(a); }); }),
        from(name + ".act.beta", per_channel, per_channel,
             [](std::vector<float> v) { return each(std::move(v), [](float b) { return 1.0f / (std::exp(b) + 1e-9f); }); }),
        from(name + ".upsample.filter", filter, {2, 7}, [](std::vector<float> v) { return ops::upsampling_phases(v); }),
        from(name + ".downsample.lowpass.filter", filter, {1, kFilterTaps}, [](std::vector<float> v) { return v; }),
    };
  }

 private:
  template <class Function>
  static std::vector<float> each(std::vector<float> values, Function function) {
    std::transform(values.begin(), values.end(), values.begin(), function);
    return values;
  }

  ggml_tensor* from(const std::string& name, const Shape& shape, const Shape& stored, Transform transform) {
    return loader_.transformed(name, shape, stored, std::move(transform));
  }
  ggml_tensor* normalized_weight(const std::string& name, const Shape& shape, const Shape& stored, Transform transform) {
    return declare_normalized_weight(loader_, part_, name, shape, stored, std::move(transform));
  }

  ParamLoader& loader_;
  const WeightPart& part_;
};

std::vector<ResidualStep> declare_branch(Declaration& declare, const std::string& name, std::int64_t channels, std::int64_t kernel,
                                         const std::vector<int>& dilations) {
  std::vector<ResidualStep> steps;
  for (std::size_t p = 0; p < dilations.size(); ++p) {
    ResidualStep step;
    step.first_activation = declare.activation(fmt::format("{}.activations.{}", name, 2 * p), channels);
    step.first = declare.convolution(fmt::format("{}.convs1.{}", name, p), channels, channels, kernel);
    step.second_activation = declare.activation(fmt::format("{}.activations.{}", name, 2 * p + 1), channels);
    step.second = declare.convolution(fmt::format("{}.convs2.{}", name, p), channels, channels, kernel);
    step.dilation = dilations[p];
    steps.push_back(step);
  }
  return steps;
}

DecoderStage declare_stage(Declaration& declare, const AudioVaeConfig& config, std::size_t i) {
  DecoderStage stage;
  stage.rate = config.decoder_rates[i];
  stage.channels = config.decoder_channels(i + 1);
  stage.up = declare.upsampling(fmt::format("decoder.ups.{}.0", i), config.decoder_channels(i), stage.channels,
                                config.decoder_kernel_sizes[i], stage.rate);
  const std::size_t branches = config.resblock_kernel_sizes.size();
  for (std::size_t j = 0; j < branches; ++j)
    stage.branches.push_back(declare_branch(declare, fmt::format("decoder.resblocks.{}", branches * i + j), stage.channels,
                                            config.resblock_kernel_sizes[j], config.resblock_dilation_sizes[j]));
  return stage;
}

}  // namespace

DecoderWeights declare_decoder(ParamLoader& loader, const WeightPart& part, const AudioVaeConfig& config) {
  Declaration declare(loader, part);
  DecoderWeights out;
  out.in_proj = declare.plain_convolution("dec_in_proj", config.latent_channels, config.latent_dim, 1);
  out.conv_pre = declare.convolution("decoder.conv_pre", config.latent_dim, config.decoder_dim, kEdgeKernel);
  const std::size_t stages = config.decoder_rates.size();
  for (std::size_t i = 0; i < stages; ++i) out.stages.push_back(declare_stage(declare, config, i));
  const std::int64_t last = config.decoder_channels(stages);
  out.activation_post = declare.activation("decoder.activation_post", last);
  out.conv_post = declare.convolution("decoder.conv_post", last, 1, kEdgeKernel, /*bias=*/false);
  return out;
}

ggml_tensor* declare_normalized_weight(ParamLoader& loader, const WeightPart& part, const std::string& name, const Shape& shape,
                                       const Shape& stored, Transform transform) {
  if (part.has(name + ".weight")) return loader.transformed(name + ".weight", shape, stored, std::move(transform));
  const std::string g_name = name + ".weight_g", v_name = name + ".weight_v";
  loader.require(g_name, {shape[0], 1, 1});
  loader.require(v_name, shape);
  return loader.computed(name + ".weight", stored,
                         [g_name, v_name, transform = std::move(transform)](const WeightPart& file) -> Result<std::vector<float>> {
                           TRITIUM_TRY_ASSIGN(const std::vector<float> g, file.read_f32(g_name));
                           TRITIUM_TRY_ASSIGN(const std::vector<float> v, file.read_f32(v_name));
                           std::vector<float> folded = fold_weight_norm(g, v);
                           return transform ? transform(std::move(folded)) : std::move(folded);
                         });
}

std::vector<float> fold_weight_norm(std::span<const float> g, std::span<const float> v) {
  std::vector<float> out(v.begin(), v.end());
  const std::size_t row = v.size() / g.size();
  for (std::size_t r = 0; r < g.size(); ++r) {
    const std::span values(out.data() + r * row, row);
    double squares = 0;
    for (const float x : values) squares += static_cast<double>(x) * static_cast<double>(x);
    const double factor = static_cast<double>(g[r]) / std::sqrt(squares);
    for (float& x : values) x = static_cast<float>(factor * static_cast<double>(x));
  }
  return out;
}

}  // namespace tritium::audio_vae
