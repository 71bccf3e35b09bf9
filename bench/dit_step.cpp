// One evaluation of the transformer at real width: tritium synth DIR --preset released --part dit --format int8-convrot --pruned --layers 1
//
//   bench_dit_step DIT_FILE [ROWS] [PRECISION f32|bf16|int8] [THREADS] [--plain]
//
// Prints seconds of wall and CPU time of the fastest of three evaluations after the first, and where the time of a further one goes.
#include "base/try.h"
#include "model/dit/dit.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>

namespace {

using namespace tritium;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<float> noise(std::int64_t count) {
  std::mt19937 random(std::random_device{}());
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& v : out) v = normal(random);
  return out;
}

Result<void> measure(const std::string& file, int rows, MatrixPrecision precision, int threads, bool plain) {
  TRITIUM_TRY_ASSIGN(const std::unique_ptr<Device> device, Device::open("CPU", threads));
  if (plain) device->set_fast_kernels(false);
  TRITIUM_TRY_ASSIGN(auto part, WeightPart::open(file));
  TRITIUM_TRY_ASSIGN(const DitConfig config, read_dit_config(*part, ""));
  TRITIUM_TRY_ASSIGN(const auto dit, Dit::load(*device, part, config, {precision, form_for(*device)}));
  constexpr int kText = 128, kAudio = 64, kSide = 8;
  PackingRequest request;
  request.text_tags.assign(kText, Modality::text);
  const int frames = std::max(1, (rows - kText - 2 * kAudio) / (kSide * kSide));
  request.video = {static_cast<int>(config.video_features / 4), frames, 2 * kSide, 2 * kSide};
  request.audio_latents = kAudio;
  TRITIUM_TRY_ASSIGN(PackedLayout layout, make_layout(request));
  TRITIUM_TRY_ASSIGN(RowTimesteps times, assign_timesteps(layout, 0.5f, 0.5f, {}));
  const DitRows x{noise(config.video_features * layout.target_video().rows), noise(config.audio_features * layout.target_audio().rows)};
  const int all = layout.rows();
  TRITIUM_TRY_ASSIGN(DitRun run, DitRun::begin(*dit, std::move(layout), noise(config.text_dim * kText), {}, {times}));
  double wall = 1e30, cpu = 1e30;
  for (int i = 0; i < 4; ++i) {
    const double wall_start = wall_seconds(), cpu_start = cpu_seconds();
    TRITIUM_TRY(run.evaluate(0, x));
    if (i == 0) continue;
    wall = std::min(wall, wall_seconds() - wall_start);
    cpu = std::min(cpu, cpu_seconds() - cpu_start);
  }
  const double s = all, flops = static_cast<double>(config.layers) * s * (38.535e9 / 50 + 1.4336e6 / 50 * s);
  fmt::print("{} rows, {} layers, {}{}: {:.3f} s wall, {:.3f} s of CPU, {:.0f} GFLOP/s of CPU time, scratch {:.0f} MB\n", all,
             config.layers, precision_name(precision), plain ? " plain" : "", wall, cpu, flops / cpu * 1e-9,
             static_cast<double>(device->working_bytes()) * 1e-6);
  Profile profile;
  device->set_profile(&profile);
  TRITIUM_TRY(run.evaluate(0, x));
  device->set_profile(nullptr);
  fmt::print("{}", profile.table());
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const auto argument = [&](int i) { return count > i ? std::string(arguments[i]) : std::string(); };
  MatrixPrecision precision = MatrixPrecision::int8;
  if (argument(3) == "bf16") precision = MatrixPrecision::bf16;
  if (argument(3) == "f32") precision = MatrixPrecision::f32;
  const auto done = measure(argument(1), count > 2 ? std::stoi(argument(2)) : 2048, precision, count > 4 ? std::stoi(argument(4)) : 2,
                            argument(5) == "--plain");
  if (!done.ok()) fmt::print("{}\n", done.error().text());
  return done.ok() ? 0 : 1;
}
