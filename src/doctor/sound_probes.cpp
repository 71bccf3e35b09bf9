// The convolutions and activations of the audio VAE at its channel counts (spec/vae.md §2.3, §2.5). Expected: the definitions.
#include "base/try.h"
#include "doctor/probe.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>

namespace tritium::doctor {
namespace {

constexpr std::int64_t kSamplesChecked = 7, kChannelsChecked = 11;

// Samples outside the signal are zero.
double sample(const Values& x, std::int64_t length, std::int64_t channel, std::int64_t i) {
  return i < 0 || i >= length ? 0.0 : static_cast<double>(*x.at(channel * length + i));
}

struct Convolution {
  std::int64_t in, out, kernel;
  int dilation = 1;
};

Result<Comparison> check_conv1d(Bench& bench, const Convolution& c) {
  constexpr std::int64_t kLength = 97;
  const Values input(1), weight(2, 1 / std::sqrt(static_cast<double>(c.in * c.kernel))), bias(3);
  const auto padding = static_cast<int>((c.kernel - 1) * c.dilation / 2);
  ops::Conv1d layer;
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({kLength, c.in}, input));
  TRITIUM_TRY_ASSIGN(layer.weight, bench.tensor({c.kernel, c.in, c.out}, weight));
  TRITIUM_TRY_ASSIGN(layer.bias, bench.tensor({c.out}, bias));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) {
    return bench.operations().conv1d(graph, layer, x, padding, c.dilation, ops::kMaxColumnValues);
  }));
  Comparison out;
  for (const std::int64_t channel : picked(c.out, kChannelsChecked))
    for (const std::int64_t i : picked(kLength, kSamplesChecked)) {
      Expected expected;
      expected.add(static_cast<double>(*bias.at(channel)));
      for (std::int64_t source = 0; source < c.in; ++source)
        for (std::int64_t tap = 0; tap < c.kernel; ++tap)
          expected.add(sample(input, kLength, source, i - padding + tap * c.dilation) *
                       static_cast<double>(*weight.at((channel * c.in + source) * c.kernel + tap)));
      out.check(y[static_cast<std::size_t>(channel * kLength + i)], expected, product_tolerance(c.in * c.kernel));
    }
  return out;
}

// All convolutions of a residual block with these channels.
Result<Comparison> check_residual_block(Bench& bench, std::int64_t channels) {
  Comparison out;
  for (const std::int64_t kernel : {3, 7, 11})
    for (const int dilation : {1, 3, 5}) {
      TRITIUM_TRY_ASSIGN(const Comparison one, check_conv1d(bench, {channels, channels, kernel, dilation}));
      out.merge(one, fmt::format("kernel {}, dilation {}", kernel, dilation));
    }
  return out;
}

struct Resampling {
  std::int64_t in, out, kernel, stride;
};

Result<Comparison> check_transposed(Bench& bench, const Resampling& r) {
  constexpr std::int64_t kLength = 41;
  const Values input(4), bias(6);
  const std::vector<float> weight = Values(5, 1 / std::sqrt(static_cast<double>(r.in))).first(r.in * r.out * r.kernel);
  ops::Conv1d layer;
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({kLength, r.in}, input));
  TRITIUM_TRY_ASSIGN(layer.weight, bench.tensor({ops::polyphase_taps(r.kernel, r.stride), r.in, r.out * r.stride},
                                                ops::polyphase_weights(weight, r.in, r.out, r.kernel, r.stride)));
  TRITIUM_TRY_ASSIGN(layer.bias, bench.tensor({r.out}, bias));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y,
                     bench.run([&](Graph& graph) { return bench.operations().transposed_conv1d(graph, layer, x, r.out, r.stride); }));
  Comparison out;
  const std::int64_t padding = (r.kernel - r.stride) / 2, length = kLength * r.stride;
  for (const std::int64_t channel : picked(r.out, kChannelsChecked))
    for (const std::int64_t n : picked(length, 4 * kSamplesChecked)) {
      Expected expected;
      expected.add(static_cast<double>(*bias.at(channel)));
      for (std::int64_t source = 0; source < r.in; ++source)
        for (std::int64_t q = 0; q < r.kernel; ++q)
          if ((n + padding - q) % r.stride == 0)
            expected.add(sample(input, kLength, source, (n + padding - q) / r.stride) *
                         static_cast<double>(weight[static_cast<std::size_t>((source * r.out + channel) * r.kernel + q)]));
      out.check(y[static_cast<std::size_t>(channel * length + n)], expected, product_tolerance(r.in * r.kernel));
    }
  return out;
}

Result<Comparison> check_strided(Bench& bench, const Resampling& r) {
  constexpr std::int64_t kLength = 31;  // after it
  const Values input(7), bias(9);
  const std::vector<float> weight = Values(8, 1 / std::sqrt(static_cast<double>(r.in * r.kernel))).first(r.in * r.out * r.kernel);
  const std::int64_t length = kLength * r.stride, padding = (r.stride + 1) / 2;
  ops::Conv1d layer;
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({length, r.in}, input));
  TRITIUM_TRY_ASSIGN(layer.weight, bench.tensor({2, r.in * r.stride, r.out}, ops::strided_weights(weight, r.in, r.out, r.stride)));
  TRITIUM_TRY_ASSIGN(layer.bias, bench.tensor({r.out}, bias));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y,
                     bench.run([&](Graph& graph) { return bench.operations().strided_conv1d(graph, layer, x, r.stride); }));
  Comparison out;
  for (const std::int64_t channel : picked(r.out, kChannelsChecked))
    for (const std::int64_t i : picked(kLength, kSamplesChecked)) {
      Expected expected;
      expected.add(static_cast<double>(*bias.at(channel)));
      for (std::int64_t source = 0; source < r.in; ++source)
        for (std::int64_t q = 0; q < r.kernel; ++q)
          expected.add(sample(input, length, source, i * r.stride - padding + q) *
                       static_cast<double>(weight[static_cast<std::size_t>((channel * r.in + source) * r.kernel + q)]));
      out.check(y[static_cast<std::size_t>(channel * kLength + i)], expected, product_tolerance(r.in * r.kernel));
    }
  return out;
}

// The stored filter of spec/vae.md §2.5.
constexpr std::array<float, 12> kFilter = {0.00202896469f, 0.00938946567f, -0.0255434588f, -0.0576573834f, 0.128572583f,   0.443209797f,
                                           0.443209797f,   0.128572583f,   -0.0576573834f, -0.0255434588f, 0.00938946567f, 0.00202896469f};

struct SnakeProblem {
  std::int64_t length, channels;
  Values x{10, 3};
  std::vector<float> frequency, inverse;
  SnakeProblem(std::int64_t l, std::int64_t c) : length(l), channels(c) {
    const Values alpha(11), beta(12);
    for (std::int64_t i = 0; i < c; ++i) {
      frequency.push_back(std::exp(*alpha.at(i)));
      inverse.push_back(1 / (std::exp(*beta.at(i)) + 1e-9f));
    }
  }
  [[nodiscard]] double wave(std::int64_t channel, double v) const {
    const double sine = std::sin(static_cast<double>(frequency[static_cast<std::size_t>(channel)]) * v);
    return v + sine * sine * static_cast<double>(inverse[static_cast<std::size_t>(channel)]);
  }
  // The activated signal at twice the rate.
  [[nodiscard]] double doubled(std::int64_t channel, std::int64_t n) const {
    n = std::clamp<std::int64_t>(n, 0, 2 * length - 1);
    double sum = 0;
    for (std::int64_t j = 0; j < 6; ++j) {
      const std::int64_t i = std::clamp<std::int64_t>(n / 2 + 2 + n % 2 - j, 0, length - 1);
      sum += 2 * static_cast<double>(kFilter[static_cast<std::size_t>(2 * j + 1 - n % 2)]) * sample(x, length, channel, i);
    }
    return wave(channel, sum);
  }
};

Result<Comparison> check_alias_free_snake(Bench& bench, std::int64_t channels) {
  const SnakeProblem problem(1100, channels);
  ops::AliasFreeSnake layer;
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({problem.length, channels}, problem.x));
  TRITIUM_TRY_ASSIGN(layer.frequency, bench.tensor({channels}, problem.frequency));
  TRITIUM_TRY_ASSIGN(layer.inverse_magnitude, bench.tensor({channels}, problem.inverse));
  TRITIUM_TRY_ASSIGN(layer.up, bench.tensor({7, 2}, ops::upsampling_phases(kFilter)));
  TRITIUM_TRY_ASSIGN(layer.down, bench.tensor({12, 1}, kFilter));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y,
                     bench.run([&](Graph& graph) { return bench.operations().alias_free_snake(graph, layer, x); }));
  Comparison out;
  for (const std::int64_t channel : picked(channels, kChannelsChecked))
    for (const std::int64_t i : picked(problem.length, 101)) {
      double expected = 0;
      for (std::int64_t k = 0; k < 12; ++k)
        expected += static_cast<double>(kFilter[static_cast<std::size_t>(k)]) * problem.doubled(channel, 2 * i + k - 5);
      // Terms of the filters, of the signal and of the wave.
      const double magnitude = 3 + 2 * static_cast<double>(problem.inverse[static_cast<std::size_t>(channel)]);
      out.check(y[static_cast<std::size_t>(channel * problem.length + i)], expected, magnitude, 2e-6);
    }
  return out;
}

Result<Comparison> check_pointwise_snake(Bench& bench, std::int64_t channels) {
  const SnakeProblem problem(1100, channels);
  ops::PointwiseSnake layer;
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({problem.length, channels}, problem.x));
  TRITIUM_TRY_ASSIGN(layer.frequency, bench.tensor({channels}, problem.frequency));
  TRITIUM_TRY_ASSIGN(layer.inverse_magnitude, bench.tensor({channels}, problem.inverse));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y,
                     bench.run([&](Graph& graph) { return bench.operations().pointwise_snake(graph, layer, x); }));
  Comparison out;
  for (const std::int64_t channel : picked(channels, kChannelsChecked))
    for (const std::int64_t i : picked(problem.length, 101)) {
      const double value = sample(problem.x, problem.length, channel, i);
      const double magnitude = std::abs(value) + static_cast<double>(problem.inverse[static_cast<std::size_t>(channel)]);
      out.check(y[static_cast<std::size_t>(channel * problem.length + i)], problem.wave(channel, value), magnitude, 2e-6);
    }
  return out;
}

constexpr Convolution kConvolutions[] = {{32, 2048, 1}, {2048, 1024, 7}, {8, 1, 7}, {1, 64, 7}, {2048, 2048, 3}};
constexpr Resampling kUp[] = {{1024, 512, 9, 5}, {512, 256, 9, 5}, {256, 128, 4, 2}, {128, 64, 4, 2},
                              {64, 32, 4, 2},    {32, 16, 4, 2},   {16, 8, 4, 2}};
constexpr Resampling kDown[] = {{64, 128, 4, 2}, {128, 256, 8, 4}, {256, 512, 8, 4}, {512, 1024, 10, 5}, {1024, 2048, 10, 5}};

std::uint64_t bytes_of(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return static_cast<std::uint64_t>(8 * in * out * kernel) + (8u << 20);
}

}  // namespace

std::vector<Probe> sound_probes() {
  std::vector<Probe> out;
  for (const Convolution& c : kConvolutions)
    out.push_back({"conv1d", fmt::format("{}->{} channels, kernel {}", c.in, c.out, c.kernel), bytes_of(c.in, c.out, c.kernel), true, false,
                   [c](Bench& bench) { return check_conv1d(bench, c); }});
  for (const std::int64_t channels : {512, 256, 128, 64, 32, 16, 8})
    out.push_back({"conv1d", fmt::format("{} channels, kernels 3, 7 and 11, dilations 1, 3 and 5", channels),
                   9 * bytes_of(channels, channels, 11), true, false,
                   [channels](Bench& bench) { return check_residual_block(bench, channels); }});
  for (const Resampling& r : kUp)
    out.push_back({"transposed_conv1d", fmt::format("{}->{} channels, stride {}", r.in, r.out, r.stride),
                   2 * bytes_of(r.in, r.out, r.kernel), true, false, [r](Bench& bench) { return check_transposed(bench, r); }});
  for (const Resampling& r : kDown)
    out.push_back({"strided_conv1d", fmt::format("{}->{} channels, stride {}", r.in, r.out, r.stride), 2 * bytes_of(r.in, r.out, r.kernel),
                   true, false, [r](Bench& bench) { return check_strided(bench, r); }});
  for (const std::int64_t channels : {512, 32, 8})
    out.push_back({"alias_free_snake", fmt::format("{} channels", channels), 32u << 20, true, false,
                   [channels](Bench& bench) { return check_alias_free_snake(bench, channels); }});
  for (const std::int64_t channels : {64, 512})
    out.push_back({"pointwise_snake", fmt::format("{} channels", channels), 16u << 20, true, false,
                   [channels](Bench& bench) { return check_pointwise_snake(bench, channels); }});
  return out;
}

}  // namespace tritium::doctor
