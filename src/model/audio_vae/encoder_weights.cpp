#include "model/audio_vae/encoder_weights.h"

#include "base/try.h"
#include "model/audio_vae/weights.h"
#include "ops/strided_conv1d.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::audio_vae {
namespace {

constexpr int kUnitKernel = 7, kOutputKernel = 3;
constexpr int kMlpFactor = 2;  // inner width / latent channels

class Declaration {
 public:
  Declaration(ParamLoader& loader, const WeightPart& part) : loader_(loader), part_(part) {}

  ops::Conv1d convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel) {
    const std::vector<std::int64_t> shape{out, in, kernel};
    return {declare_normalized_weight(loader_, part_, name, shape, shape), loader_.tensor(name + ".bias", {out})};
  }

  ops::Conv1d downsampling(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t rate) {
    const auto rearrange = [=](const std::vector<float>& w) { return ops::strided_weights(w, in, out, rate); };
    return {declare_normalized_weight(loader_, part_, name, {out, in, 2 * rate}, {out, in * rate, 2}, rearrange),
            loader_.tensor(name + ".bias", {out})};
  }

  ops::PointwiseSnake activation(const std::string& name, std::int64_t channels) {
    const auto inverse = [](std::vector<float> alpha) {
      std::transform(alpha.begin(), alpha.end(), alpha.begin(), [](float a) { return 1.0f / (a + 1e-9f); });
      return alpha;
    };
    return {loader_.transformed(name + ".alpha", {1, channels, 1}, {channels}),
            loader_.transformed(name + ".alpha", {1, channels, 1}, {channels}, inverse)};
  }

  LayerNorm norm(const std::string& name, std::int64_t features) {
    return {loader_.tensor(name + ".weight", {features}), loader_.tensor(name + ".bias", {features})};
  }

  ops::Linear linear(const std::string& name, std::int64_t in, std::int64_t out) {
    return {loader_.float_matrix(name + ".weight", out, in), loader_.tensor(name + ".bias", {out})};
  }

  // The biases are stored apart and there is none for k but a row of zeros.
  ops::Linear qkv(const std::string& name, std::int64_t features) {
    const std::vector<std::string> parts{name + ".q_bias", name + ".zero_k_bias", name + ".v_bias"};
    for (const std::string& part : parts) loader_.require(part, {features});
    const auto join = [parts](const WeightPart& file) -> Result<std::vector<float>> {
      std::vector<float> out;
      for (const std::string& part : parts) {
        TRITIUM_TRY_ASSIGN(const std::vector<float> values, file.read_f32(part));
        out.insert(out.end(), values.begin(), values.end());
      }
      return out;
    };
    return {loader_.float_matrix(name + ".qkv.weight", 3 * features, features), loader_.computed(name + ".qkv.bias", {3 * features}, join)};
  }

  ops::Linear pooling(int heads, int head_dim, int out) {
    const auto compute = [=](const WeightPart&) -> Result<std::vector<float>> { return pooling_matrix(heads, head_dim, out); };
    return {loader_.computed("pooling of the attention heads", {out, std::int64_t{heads} * head_dim}, compute), nullptr};
  }

  ops::Linear pointwise(const std::string& name, std::int64_t in, std::int64_t out) {
    return {loader_.float_matrix(name + ".weight", out, in, {out, in, 1}), loader_.tensor(name + ".bias", {out})};
  }

 private:
  ParamLoader& loader_;
  const WeightPart& part_;
};

EncoderStage declare_stage(Declaration& declare, const std::string& name, std::int64_t channels, std::int64_t rate) {
  EncoderStage stage;
  stage.rate = rate;
  for (std::size_t i = 0; i < kUnitDilations.size(); ++i) {
    const std::string unit = fmt::format("{}.block.{}.block", name, i);
    stage.units.push_back({declare.activation(unit + ".0", channels), declare.activation(unit + ".2", channels),
                           declare.convolution(unit + ".1", channels, channels, kUnitKernel),
                           declare.convolution(unit + ".3", channels, channels, 1), kUnitDilations[i]});
  }
  stage.activation = declare.activation(fmt::format("{}.block.{}", name, kUnitDilations.size()), channels);
  stage.down = declare.downsampling(fmt::format("{}.block.{}", name, kUnitDilations.size() + 1), channels, 2 * channels, rate);
  return stage;
}

AttentionProjection declare_projection(Declaration& declare, const std::string& name, const AudioVaeConfig& config) {
  const std::int64_t in = config.latent_dim, out = config.latent_channels, inner = kMlpFactor * out;
  AttentionProjection result;
  result.norm1 = declare.norm(name + ".norm1", in);
  result.norm2 = declare.norm(name + ".norm2", out);
  result.norm3 = declare.norm(name + ".norm3", in);
  result.qkv = declare.qkv(name + ".attn", in);
  result.pool = declare.pooling(config.attention_heads, config.latent_dim / config.attention_heads, config.latent_channels);
  result.attention = declare.linear(name + ".attn.proj", out, out);
  result.proj = declare.linear(name + ".proj", in, out);
  result.mlp_norm = declare.norm(name + ".mlp.norm", out);
  result.w0 = declare.linear(name + ".mlp.w0", out, inner);
  result.w1 = declare.linear(name + ".mlp.w1", out, inner);
  result.w2 = declare.linear(name + ".mlp.w2", inner, out);
  return result;
}

}  // namespace

EncoderWeights declare_encoder(ParamLoader& loader, const WeightPart& part, const AudioVaeConfig& config) {
  Declaration declare(loader, part);
  EncoderWeights out;
  std::int64_t channels = config.encoder_dim;
  int block = 0;  // number of the module within the encoder
  const auto next = [&block] { return fmt::format("encoder.block.{}", block++); };
  out.conv_in = declare.convolution(next(), 1, channels, kUnitKernel);
  for (const int rate : config.encoder_rates) {
    out.stages.push_back(declare_stage(declare, next(), channels, rate));
    channels *= 2;
  }
  out.activation_out = declare.activation(next(), channels);
  out.conv_out = declare.convolution(next(), channels, config.latent_dim, kOutputKernel);
  out.pre_block = declare_projection(declare, "pre_block", config);
  out.mean_proj = declare.pointwise("mean_proj", config.latent_channels, config.latent_channels);
  return out;
}

std::vector<float> pooling_matrix(int heads, int head_dim, int out) {
  const int features = heads * head_dim;
  std::vector<float> matrix(static_cast<std::size_t>(out) * static_cast<std::size_t>(features), 0.0f);
  for (int i = 0; i < out; ++i) {
    const int first = i * head_dim / out, end = ((i + 1) * head_dim + out - 1) / out;
    const double share = 1.0 / (static_cast<double>(end - first) * heads);
    for (int head = 0; head < heads; ++head)
      for (int d = first; d < end; ++d) matrix[static_cast<std::size_t>(i * features + head * head_dim + d)] = static_cast<float>(share);
  }
  return matrix;
}

}  // namespace tritium::audio_vae
