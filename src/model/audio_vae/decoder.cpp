#include "model/audio_vae/decoder.h"

#include "base/try.h"
#include "model/audio_vae/signal_stages.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium::audio_vae {
namespace {

constexpr std::array<const char*, kChannels> kChannelNames{"left", "right"};

int same_padding(const ops::Conv1d& layer, int dilation) { return static_cast<int>(layer.weight->ne[0] - 1) * dilation / 2; }

ggml_tensor* convolve(Graph& graph, const ops::Conv1d& layer, ggml_tensor* x, int dilation = 1) {
  return ops::conv1d(graph, layer, x, same_padding(layer, dilation), dilation);
}

// Each function below builds the graph of one stage on x [length, channels].
ggml_tensor* build_input(Graph& graph, const DecoderWeights& weights, ggml_tensor* x) {
  x = graph.name("dec_in_proj", convolve(graph, weights.in_proj, graph.name("z_denorm", x)));
  return convolve(graph, weights.conv_pre, x);
}

ggml_tensor* build_branch(Graph& graph, const std::vector<ResidualStep>& steps, ggml_tensor* x) {
  for (const ResidualStep& step : steps) {
    ggml_tensor* y = convolve(graph, step.first, ops::alias_free_snake(graph, step.first_activation, x), step.dilation);
    y = convolve(graph, step.second, ops::alias_free_snake(graph, step.second_activation, y));
    x = ggml_add(graph.context(), x, y);
  }
  return x;
}

ggml_tensor* build_stage(Graph& graph, const DecoderStage& stage, std::size_t index, ggml_tensor* x) {
  x = graph.name(fmt::format("decoder.ups.{}.0", index), ops::transposed_conv1d(graph, stage.up, x, stage.channels, stage.rate));
  ggml_tensor* sum = nullptr;
  for (std::size_t j = 0; j < stage.branches.size(); ++j) {
    ggml_tensor* branch = build_branch(graph, stage.branches[j], x);
    graph.name(fmt::format("decoder.resblocks.{}", index * stage.branches.size() + j), branch);
    sum = sum == nullptr ? branch : ggml_add(graph.context(), sum, branch);
  }
  return ggml_scale(graph.context(), sum, 1.0f / static_cast<float>(stage.branches.size()));
}

ggml_tensor* build_output(Graph& graph, const DecoderWeights& weights, ggml_tensor* x) {
  x = graph.name("decoder.activation_post", ops::alias_free_snake(graph, weights.activation_post, x));
  return convolve(graph, weights.conv_post, x);
}

}  // namespace

AudioDecoder::AudioDecoder(Device& device, AudioVaeConfig config, DecoderWeights weights, TensorPool pool)
    : device_(&device), config_(std::move(config)), weights_(std::move(weights)), pool_(std::move(pool)) {}

Result<std::uint64_t> AudioDecoder::check(const WeightPart& part, const AudioVaeConfig& config) {
  ParamLoader loader(part, "audio VAE decoder", MatrixPrecision::f32);
  declare_decoder(loader, part, config);
  TRITIUM_TRY(loader.check());
  return loader.bytes();
}

Result<AudioDecoder> AudioDecoder::load(Device& device, const WeightPart& part, const AudioVaeConfig& config, const CancelToken* cancel,
                                        const LoadProgress& progress) {
  ParamLoader loader(part, "audio VAE decoder", MatrixPrecision::f32);
  DecoderWeights weights = declare_decoder(loader, part, config);
  TRITIUM_TRY_ASSIGN(TensorPool pool, loader.load(device, cancel, progress));
  return AudioDecoder(device, config, std::move(weights), std::move(pool));
}

Result<void> AudioDecoder::check_latents(const LatentAudio& latents) const {
  const std::int64_t expected = kChannels * config_.latent_channels * latents.length;
  if (latents.length < 1 || static_cast<std::int64_t>(latents.values.size()) != expected)
    return Error{ErrorCode::failure,
                 fmt::format("audio latents of length {} have {} values, expected {} x {} x length", latents.length, latents.values.size(),
                             kChannels, config_.latent_channels),
                 "latents", ""};
  if (!std::all_of(latents.values.begin(), latents.values.end(), [](float v) { return std::isfinite(v); }))
    return Error{ErrorCode::failure, "audio latents contain values that are not finite", "latents", ""};
  return {};
}

Result<StereoSound> AudioDecoder::decode(const LatentAudio& latents, const CancelToken* cancel, const StageProgress& progress) const {
  TRITIUM_TRY(check_latents(latents));
  const int total = kChannels * (static_cast<int>(weights_.stages.size()) + 2);
  int done = 0;
  const auto stage_done = [&] {
    ++done;
    if (progress) progress(done, total);
  };
  StereoSound out;
  out.sampling_rate = config_.sampling_rate;
  const std::size_t channel_values = latents.values.size() / kChannels;
  for (std::size_t channel = 0; channel < kChannels; ++channel) {
    const auto first = latents.values.begin() + static_cast<std::ptrdiff_t>(channel * channel_values);
    std::vector<float> signal(first, first + static_cast<std::ptrdiff_t>(channel_values));
    for (std::size_t i = 0; i < signal.size(); ++i) {
      const std::size_t c = i / static_cast<std::size_t>(latents.length);
      signal[i] = signal[i] * config_.latents_std[c] + config_.latents_mean[c];
    }
    TRITIUM_TRY_ASSIGN(out.channels[channel], decode_channel(fmt::format("audio_vae.{}", kChannelNames[channel]), std::move(signal),
                                                             latents.length, cancel, stage_done));
  }
  return out;
}

Result<std::vector<float>> AudioDecoder::decode_channel(const std::string& scope, std::vector<float> signal, std::int64_t length,
                                                        const CancelToken* cancel, const std::function<void()>& stage_done) const {
  SignalStages staged{*device_, scope, std::move(signal), length, cancel, stage_done};
  TRITIUM_TRY(staged.run("input", "decoder.conv_pre", [&](Graph& graph, ggml_tensor* x) { return build_input(graph, weights_, x); }));
  for (std::size_t i = 0; i < weights_.stages.size(); ++i)
    TRITIUM_TRY(staged.run(fmt::format("stage{}", i), "result",
                           [&](Graph& graph, ggml_tensor* x) { return build_stage(graph, weights_.stages[i], i, x); }));
  TRITIUM_TRY(staged.run("output", "decoder.conv_post", [&](Graph& graph, ggml_tensor* x) { return build_output(graph, weights_, x); }));
  for (float& v : staged.signal) v = std::clamp(v, -1.0f, 1.0f);
  return std::move(staged.signal);
}

}  // namespace tritium::audio_vae
