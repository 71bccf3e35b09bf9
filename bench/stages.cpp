// One stage of a whole model: the text encoder over a prompt, the video decoder over one tile of one clip, the audio decoder over seconds
// of sound. tritium synth DIR --preset released --format int8-convrot --pruned --layers 1 --text-layers 8 --vocabulary 709
//
//   bench_stages MODEL text|video|audio [--rows N] [--seconds S] [--threads N] [--runs N] [--compute KIND] [--plain] [--profile]
//
// --plain: ggml's own operations and block types in place of Tritium's kernels.
#include "base/try.h"
#include "measure.h"
#include "pipeline/model_info.h"
#include "pipeline/parts.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <random>

namespace {

using namespace tritium;

struct Options {
  std::string model, stage, compute = "auto";
  int rows = 300, threads = 2, runs = 3;
  double seconds = 5;
  bool plain = false, profile = false;
};

std::vector<float> random_normal(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(generator);
  return out;
}

using Evaluate = std::function<Result<std::vector<float>>()>;

Result<Evaluate> text_stage(Device& device, const ModelInfo& model, MatrixPolicy policy, int rows) {
  TRITIUM_TRY_ASSIGN(TextModel loaded, TextModel::load(device, model.text, model.text_config, policy));
  auto text = std::make_shared<TextModel>(std::move(loaded));
  std::vector<std::int32_t> ids;
  std::vector<std::array<std::int32_t, 3>> positions;
  for (int i = 0; i < rows; ++i) {
    ids.push_back(i * 37 % static_cast<int>(model.text_config.vocabulary));
    positions.push_back({i, i, i});
  }
  return Evaluate([=] { return text->encode(ids, positions); });
}

// 256x256 pixels, 22 frames.
Result<Evaluate> video_stage(Device& device, const ModelInfo& model, MatrixPolicy policy) {
  using video_vae::VideoDecoder;
  constexpr int kTokens = 7, kSide = 16;
  TRITIUM_TRY_ASSIGN(VideoDecoder loaded, VideoDecoder::load(device, *model.video_vae, model.video_vae_config, policy));
  auto decoder = std::make_shared<VideoDecoder>(std::move(loaded));
  const std::vector<float> latents = random_normal(std::size_t(model.video_vae_config.latent_channels) * kTokens * kSide * kSide, 5);
  return Evaluate([=]() -> Result<std::vector<float>> {
    std::vector<float> last;
    const auto sink = [&](int, std::span<const float> frame) -> Result<void> {
      last.assign(frame.begin(), frame.end());
      return {};
    };
    TRITIUM_TRY(decoder->decode({latents, kTokens, kSide, kSide}, sink));
    return last;
  });
}

Result<Evaluate> audio_stage(Device& device, const ModelInfo& model, double seconds) {
  using audio_vae::AudioDecoder;
  const audio_vae::AudioVaeConfig& config = model.audio_vae_config;
  TRITIUM_TRY_ASSIGN(AudioDecoder loaded, AudioDecoder::load(device, *model.audio_vae, config));
  auto decoder = std::make_shared<AudioDecoder>(std::move(loaded));
  const auto length = static_cast<std::int64_t>(std::ceil(seconds * config.sampling_rate / config.samples_per_latent()));
  const std::vector<float> latents = random_normal(std::size_t(2 * config.latent_channels * length), 6);
  return Evaluate([=]() -> Result<std::vector<float>> {
    TRITIUM_TRY_ASSIGN(audio_vae::StereoSound sound, decoder->decode({latents, length}));
    return std::move(sound.channels[0]);
  });
}

Result<Evaluate> make_stage(Device& device, const ModelInfo& model, const Options& options) {
  const MatrixForm form = form_for(device);
  const auto policy = [&](Part part) -> Result<MatrixPolicy> {
    TRITIUM_TRY_ASSIGN(const PlanInputs::Weights weights, part_weights(model, part, options.compute, form));
    fmt::print("{}, ", precision_name(weights.precision));
    return MatrixPolicy(weights.precision, form);
  };
  if (options.stage == "text") {
    TRITIUM_TRY_ASSIGN(const MatrixPolicy text, policy(Part::text));
    return text_stage(device, model, text, options.rows);
  }
  if (options.stage == "video") {
    TRITIUM_TRY_ASSIGN(const MatrixPolicy video, policy(Part::video_decoder));
    return video_stage(device, model, video);
  }
  return audio_stage(device, model, options.seconds);
}

Result<void> measure(const Options& options) {
  TRITIUM_TRY_ASSIGN(const std::unique_ptr<Device> device, Device::open("CPU", options.threads));
  if (options.plain) device->set_fast_kernels(false);
  TRITIUM_TRY_ASSIGN(const ModelInfo model, open_model(options.model));
  TRITIUM_TRY_ASSIGN(const Evaluate evaluate, make_stage(*device, model, options));
  Result<std::vector<float>> values = std::vector<float>();
  const Measured seconds = measure_runs(options.runs, [&] {
    if (values.ok()) values = evaluate();
  });
  TRITIUM_TRY(values);
  double rms = 0;
  const bool finite = describe_values(*values, rms);
  fmt::print("{}, {} threads{}: median {:.3f} s, least {:.3f} s, first {:.3f} s, CPU {:.3f} s, peak {:.0f} MB, {}, rms {:.5f}\n",
             options.stage, options.threads, options.plain ? ", plain" : "", seconds.median, seconds.least, seconds.first, seconds.cpu,
             peak_resident_mb(), finite ? "finite" : "NOT FINITE", rms);
  if (!options.profile) return {};
  Profile profile;
  device->set_profile(&profile);
  TRITIUM_TRY(evaluate());
  device->set_profile(nullptr);
  fmt::print("{}", profile.table());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("One stage of a whole model");
  app.add_option("model", options.model)->required();
  app.add_option("stage", options.stage)->required()->check(CLI::IsMember({"text", "video", "audio"}));
  app.add_option("--rows", options.rows, "Tokens of the prompt");
  app.add_option("--seconds", options.seconds, "Of sound");
  app.add_option("--threads", options.threads);
  app.add_option("--runs", options.runs, "Runs that count, after one that does not; 0: one that counts");
  app.add_option("--compute", options.compute);
  app.add_flag("--plain", options.plain);
  app.add_flag("--profile", options.profile);
  CLI11_PARSE(app, argc, argv);
  const auto done = measure(options);
  if (!done.ok()) fmt::print("{}\n", done.error().text());
  return done.ok() ? 0 : 1;
}
