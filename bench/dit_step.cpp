// One evaluation of the transformer at real width: tritium synth DIR --preset released --part dit --format int8-convrot --pruned --layers 1
//
//   bench_dit_step FILE [--rows N] [--threads N] [--runs N] [--compute f32|bf16|int8] [--plain] [--profile] [--save FILE]
//
// --plain: ggml's own operations in place of Tritium's kernels. --profile: where the time of one more evaluation goes. --save: the
// velocities, in the order of bench/peers/sdcpp.cpp, which evaluates the same (bench/compare.md).
#include "base/try.h"
#include "measure.h"
#include "model/dit/dit.h"
#include "same_inputs.h"

#include <fmt/format.h>

namespace {

using namespace tritium;

struct Options {
  std::string file, save;
  int rows = 2048, threads = 2, runs = 5;
  MatrixPrecision precision = MatrixPrecision::int8;
  bool plain = false, profile = false;
};

bool parse(int count, char** arguments, Options& out) {
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    const auto number = [&] { return ++i < count ? std::atoi(arguments[i]) : 0; };
    if (word == "--rows") {
      out.rows = number();
    } else if (word == "--threads") {
      out.threads = number();
    } else if (word == "--runs") {
      out.runs = number();
    } else if (word == "--plain") {
      out.plain = true;
    } else if (word == "--profile") {
      out.profile = true;
    } else if (word == "--save" && i + 1 < count) {
      out.save = arguments[++i];
    } else if (word == "--compute" && i + 1 < count) {
      const std::string name = arguments[++i];
      out.precision = name == "f32" ? MatrixPrecision::f32 : name == "bf16" ? MatrixPrecision::bf16 : MatrixPrecision::int8;
    } else if (out.file.empty() && word[0] != '-') {
      out.file = word;
    } else {
      return false;
    }
  }
  return !out.file.empty();
}

// Sound of the peer's order [feature][channel][latent] as [channel][feature][latent], and back.
std::vector<float> exchange(const std::vector<float>& values, int outer, int inner) {
  std::vector<float> out(values.size());
  const int length = static_cast<int>(values.size()) / (outer * inner);
  for (int i = 0; i < outer; ++i)
    for (int j = 0; j < inner; ++j)
      std::copy_n(&values[std::size_t(i * inner + j) * length], length, &out[std::size_t(j * outer + i) * length]);
  return out;
}

// Of an evaluation, heads and refiner left out (spec/dit.md §15).
double operations(int layers, double rows) { return layers * rows * (38.535e9 / 50 + 1.4336e6 / 50 * rows); }

Result<void> measure(const Options& options) {
  const SameInputs inputs(options.rows);
  TRITIUM_TRY_ASSIGN(const std::unique_ptr<Device> device, Device::open("CPU", options.threads));
  if (options.plain) device->set_fast_kernels(false);
  TRITIUM_TRY_ASSIGN(auto part, WeightPart::open(options.file));
  TRITIUM_TRY_ASSIGN(const DitConfig config, read_dit_config(*part, ""));
  TRITIUM_TRY_ASSIGN(const auto dit, Dit::load(*device, part, config, {options.precision, form_for(*device)}));
  PackingRequest request;
  request.text_tags.assign(inputs.kText, Modality::text);
  request.video = {inputs.kChannels, inputs.frames, inputs.kCells, inputs.kCells};
  request.audio_latents = inputs.kAudio;
  const AudioLatentShape sound{inputs.kAudioFeatures, inputs.kAudio};
  TRITIUM_TRY_ASSIGN(PackedLayout layout, make_layout(request));
  TRITIUM_TRY_ASSIGN(RowTimesteps times, assign_timesteps(layout, 0.5f, 0.5f, {}));
  DitRows x;
  TRITIUM_TRY_ASSIGN(x.video, patchify_video(request.video, inputs.video));
  TRITIUM_TRY_ASSIGN(x.audio, patchify_audio(sound, exchange(inputs.audio, inputs.kAudioFeatures, 2)));
  TRITIUM_TRY_ASSIGN(DitRun run, DitRun::begin(*dit, std::move(layout), inputs.text, {}, {times}));
  DitRows velocity;
  std::string problem;
  const Measured seconds = measure_runs(options.runs, [&] {
    auto done = run.evaluate(0, x);
    if (done.ok())
      velocity = std::move(done.value());
    else
      problem = done.error().text();
  });
  if (!problem.empty()) {
    fmt::print("{}\n", problem);
    std::exit(1);
  }
  TRITIUM_TRY_ASSIGN(std::vector<float> values, unpatchify_video(request.video, velocity.video));
  TRITIUM_TRY_ASSIGN(const std::vector<float> heard, unpatchify_audio(sound, velocity.audio));
  const std::vector<float> ordered = exchange(heard, 2, inputs.kAudioFeatures);
  values.insert(values.end(), ordered.begin(), ordered.end());
  double rms = 0;
  const bool finite = describe_values(values, rms);
  fmt::print(
      "Tritium, {} rows, {} blocks, {} threads, {}{}: median {:.3f} s, least {:.3f} s, first {:.3f} s, CPU {:.3f} s, {:.0f} GFLOP/s, "
      "peak {:.0f} MB, {}, rms {:.4f}\n",
      inputs.rows(), config.layers, options.threads, precision_name(options.precision), options.plain ? " plain" : "", seconds.median,
      seconds.least, seconds.first, seconds.cpu, operations(config.layers, inputs.rows()) / seconds.median * 1e-9, peak_resident_mb(),
      finite ? "finite" : "NOT FINITE", rms);
  if (!options.save.empty()) save_values(options.save, values);
  if (!options.profile) return {};
  Profile profile;
  device->set_profile(&profile);
  TRITIUM_TRY(run.evaluate(0, x));
  device->set_profile(nullptr);
  fmt::print("{}", profile.table());
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!parse(count, arguments, options)) {
    fmt::print("bench_dit_step FILE [--rows N] [--threads N] [--runs N] [--compute f32|bf16|int8] [--plain] [--profile] [--save FILE]\n");
    return 2;
  }
  const auto done = measure(options);
  if (!done.ok()) fmt::print("{}\n", done.error().text());
  return done.ok() ? 0 : 1;
}
