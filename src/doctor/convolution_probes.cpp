// The video encoder's convolutions and group norms at its channel counts (spec/vae.md §1.3). Expected: the definition, for a few positions.
#include "base/try.h"
#include "doctor/probe.h"

#include <fmt/format.h>
#include <cmath>

namespace tritium::doctor {
namespace {

constexpr std::int64_t kPositionsChecked = 7, kChannelsChecked = 23;

struct Shape {
  std::int64_t in, out, width, height, frames;
  int space = 1, time = 1;
  bool before = false;  // frames in front instead of zeros
};

constexpr Shape kShapes[] = {
    {3, 128, 10, 8, 3},
    {128, 128, 10, 8, 3, 1, 1, true},
    {128, 128, 10, 8, 2, 2, 1},
    {128, 256, 10, 8, 2},
    {256, 256, 10, 8, 3, 2, 2, true},
    {256, 512, 6, 4, 2},
    {512, 512, 6, 4, 3, 2, 2},
    {512, 1024, 6, 4, 2},
    {1024, 1024, 6, 4, 2, 1, 1, true},
    {1024, 48, 6, 4, 2},
};

// One position beyond the border is the second one from it.
std::int64_t reflected(std::int64_t i, std::int64_t size) { return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i; }

struct Problem {
  Shape s;
  Values x{1}, before{2}, bias{4}, weight;
  explicit Problem(const Shape& shape) : s(shape), weight(3, 1 / std::sqrt(27.0 * static_cast<double>(shape.in))) {}

  [[nodiscard]] std::int64_t output_width() const { return s.width / s.space; }
  [[nodiscard]] std::int64_t output_height() const { return s.height / s.space; }
  [[nodiscard]] std::int64_t output_frames() const { return (s.frames - 1) / s.time + 1; }

  // All channels of one pixel of a frame; of those in front nullptr where they are zeros.
  [[nodiscard]] const float* pixel(std::int64_t frame, std::int64_t y, std::int64_t column) const {
    const std::int64_t place = (y * s.width + column) * s.in, plane = s.width * s.height * s.in;
    if (frame >= 0) return x.at(frame * plane + place);
    return s.before ? before.at((frame + ops::kConv3dPast) * plane + place) : nullptr;
  }

  [[nodiscard]] Expected expected(std::int64_t frame, std::int64_t y, std::int64_t column, std::int64_t channel) const {
    Expected out;
    out.add(static_cast<double>(*bias.at(channel)));
    const std::int64_t border = s.space == 1 ? 1 : 0;
    for (std::int64_t tap = 0; tap < ops::kConv3dTaps; ++tap) {
      const float* values = pixel(frame * s.time + tap / 9 - 2, reflected(y * s.space + tap / 3 % 3 - border, s.height),
                                  reflected(column * s.space + tap % 3 - border, s.width));
      if (values == nullptr) continue;
      for (std::int64_t i = 0; i < s.in; ++i)
        out.add(static_cast<double>(values[i]) * static_cast<double>(*weight.at((tap * s.in + i) * s.out + channel)));
    }
    return out;
  }
};

Result<Comparison> check_conv3d(Bench& bench, const Shape& s) {
  const Problem problem(s);
  ops::Conv3d layer;
  TRITIUM_TRY_ASSIGN(layer.weight, bench.tensor({s.out, s.in, ops::kConv3dTaps}, problem.weight));
  TRITIUM_TRY_ASSIGN(layer.bias, bench.tensor({s.out}, problem.bias));
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({s.in, s.width, s.height, s.frames}, problem.x));
  ggml_tensor* before = nullptr;
  if (s.before) { TRITIUM_TRY_ASSIGN(before, bench.tensor({s.in, s.width, s.height, ops::kConv3dPast}, problem.before)); }
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) {
    return bench.operations().conv3d(graph, layer, x, before, {s.space, s.time, 0}, ops::kMaxConv3dColumns);
  }));
  Comparison out;
  const std::int64_t width = problem.output_width(), height = problem.output_height();
  for (const std::int64_t position : picked(width * height * problem.output_frames(), kPositionsChecked))
    for (const std::int64_t channel : picked(s.out, kChannelsChecked))
      out.check(y[static_cast<std::size_t>(position * s.out + channel)],
                problem.expected(position / (width * height), position / width % height, position % width, channel),
                product_tolerance(ops::kConv3dTaps * s.in));
  return out;
}

Result<Comparison> check_group_norm(Bench& bench, std::int64_t channels) {
  constexpr std::int64_t kWidth = 10, kHeight = 8, kFrames = 2;
  constexpr int kGroups = 32;
  constexpr float kEps = 1e-6f;
  const Values input(5, 100), weight(6), bias(7);
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({channels, kWidth, kHeight, kFrames}, input));
  TRITIUM_TRY_ASSIGN(ggml_tensor * w, bench.tensor({channels}, weight));
  TRITIUM_TRY_ASSIGN(ggml_tensor * b, bench.tensor({channels}, bias));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y,
                     bench.run([&](Graph& graph) { return bench.operations().group_norm(graph, x, w, b, kGroups, kEps); }));
  Comparison out;
  const std::int64_t per_group = channels / kGroups, positions = kWidth * kHeight;
  for (std::int64_t frame = 0; frame < kFrames; ++frame)
    for (const std::int64_t group : picked(kGroups, 4)) {
      const auto value = [&](std::int64_t position, std::int64_t i) {
        return static_cast<double>(*input.at((frame * positions + position) * channels + group * per_group + i));
      };
      double mean = 0, variance = 0;
      const auto count = static_cast<double>(positions * per_group);
      for (std::int64_t k = 0; k < positions * per_group; ++k) mean += value(k / per_group, k % per_group) / count;
      for (std::int64_t k = 0; k < positions * per_group; ++k) variance += std::pow(value(k / per_group, k % per_group) - mean, 2) / count;
      for (std::int64_t k = 0; k < positions * per_group; ++k) {
        const std::int64_t channel = group * per_group + k % per_group;
        const double factor = static_cast<double>(*weight.at(channel)) / std::sqrt(variance + static_cast<double>(kEps));
        Expected expected;
        expected.add(value(k / per_group, k % per_group) * factor);
        expected.add(-mean * factor);
        expected.add(static_cast<double>(*bias.at(channel)));
        out.check(y[static_cast<std::size_t>((frame * positions + k / per_group) * channels + channel)], expected, 5e-6);
      }
    }
  return out;
}

}  // namespace

std::vector<Probe> convolution_probes() {
  std::vector<Probe> out;
  for (const Shape& s : kShapes) {
    std::string what = fmt::format("{}->{} channels", s.in, s.out);
    if (s.space > 1 || s.time > 1) what += s.time > 1 ? ", every second position and frame" : ", every second position";
    out.push_back({"conv3d", std::move(what), static_cast<std::uint64_t>(12 * ops::kConv3dTaps * s.in * s.out), true, false,
                   [s](Bench& bench) { return check_conv3d(bench, s); }});
  }
  for (const std::int64_t channels : {128, 256, 512, 1024})
    out.push_back({"group_norm", fmt::format("{} channels in 32 groups", channels), 16u << 20, true, false,
                   [channels](Bench& bench) { return check_group_norm(bench, channels); }});
  return out;
}

}  // namespace tritium::doctor
