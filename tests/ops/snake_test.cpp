// The alias-free SnakeBeta activation against the index form of spec/vae.md §2.5 in double precision.
#include "ops/snake.h"

#include "ops/support.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

namespace tritium::ops {
namespace {

using namespace ops_test;

double at(std::span<const double> signal, std::int64_t i) {
  return signal[static_cast<std::size_t>(std::clamp<std::int64_t>(i, 0, static_cast<std::int64_t>(signal.size()) - 1))];
}

// One channel: 2x up, snake, 2x down.
std::vector<double> reference(std::span<const double> x, std::span<const float> filter, double frequency, double inverse_magnitude) {
  const auto length = static_cast<std::int64_t>(x.size());
  const auto f = [&](std::int64_t i) { return static_cast<double>(filter[static_cast<std::size_t>(i)]); };
  std::vector<double> up;
  for (std::int64_t i = 0; i < length; ++i) {
    double even = 0, odd = 0;
    for (std::int64_t j = 0; j < 6; ++j) {
      even += 2 * f(2 * j + 1) * at(x, i + 2 - j);
      odd += 2 * f(2 * j) * at(x, i + 3 - j);
    }
    up.insert(up.end(), {even, odd});
  }
  for (double& u : up) u += std::pow(std::sin(frequency * u), 2) * inverse_magnitude;
  std::vector<double> out;
  for (std::int64_t i = 0; i < length; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < 12; ++k) sum += f(k) * at(up, 2 * i + k - 5);
    out.push_back(sum);
  }
  return out;
}

class SnakeTest : public EveryPath {
 protected:
  void SetUp() override {
    // Not symmetric, unlike the model's own: a mirrored index shows.
    filter_ = random_values(12, 7, 0.3f);
    for (std::size_t i = 0; i < filter_.size(); ++i) filter_[i] += 0.1f;
  }

  struct Input {
    std::vector<float> x, frequency, inverse_magnitude;
  };
  // Frequencies e^±0.7 as in trained models, so that the sine's argument reaches ±2·x_scale.
  static Input input(std::int64_t length, std::int64_t channels, float x_scale) {
    Input in{random_values(static_cast<std::size_t>(length * channels), 1, x_scale),
             random_values(static_cast<std::size_t>(channels), 2, 0.7f), random_values(static_cast<std::size_t>(channels), 3, 0.7f)};
    for (float& v : in.frequency) v = std::exp(v);
    for (float& v : in.inverse_magnitude) v = std::exp(v);
    return in;
  }

  [[nodiscard]] std::vector<float> run(Device& device, const Input& in, std::int64_t length) const {
    const auto channels = static_cast<std::int64_t>(in.frequency.size());
    Weights weights(device);
    const AliasFreeSnake layer{weights.add(in.frequency, {channels}), weights.add(in.inverse_magnitude, {channels}),
                               weights.add(upsampling_phases(filter_), {7, 2}), weights.add(filter_, {12, 1})};
    return evaluate(device, [&](Graph& g) { return alias_free_snake(g, layer, g.input("x", in.x, {length, channels})); });
  }

  void expect_correct(std::int64_t length, std::int64_t channels, float x_scale, double tolerance) const {
    const Input in = input(length, channels, x_scale);
    std::vector<double> expected;
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::vector<double> x(in.x.begin() + c * length, in.x.begin() + (c + 1) * length);
      const auto one = reference(x, filter_, static_cast<double>(in.frequency[static_cast<std::size_t>(c)]),
                                 static_cast<double>(in.inverse_magnitude[static_cast<std::size_t>(c)]));
      expected.insert(expected.end(), one.begin(), one.end());
    }
    EXPECT_LE(absolute_error(run(device(), in, length), expected), tolerance)
        << length << " samples, " << channels << " channels, " << x_scale;
  }

  std::vector<float> filter_;
};

TEST_P(SnakeTest, LengthsAndChannels) {
  for (const std::int64_t length :
       {1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 23, 31, 32, 33, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1025, 4099})
    for (const std::int64_t channels : {1, 2, 3, 8}) expect_correct(length, channels, 2.0f, 1.2e-5);
}

TEST_P(SnakeTest, ManyChannels) {
  for (const std::int64_t channels : {16, 24, 40, 56, 72}) expect_correct(37, channels, 2.0f, 1.2e-5);
}

// The sine's argument is an f32 product: its rounding, half an ulp of the argument, bounds what any f32 implementation can reach.
TEST_P(SnakeTest, LargeArgumentsOfTheSine) {
  expect_correct(200, 8, 100.0f, 1e-3);
  expect_correct(200, 8, 10000.0f, 1e-1);
}

TEST_P(SnakeTest, ResultDoesNotDependOnTheNumberOfThreads) {
  const Input in = input(777, 5, 2.0f);
  const std::vector<float> one = run(ops_test::device(GetParam(), 1), in, 777);
  for (const int threads : {2, 3}) EXPECT_EQ(run(ops_test::device(GetParam(), threads), in, 777), one) << threads;
}

INSTANTIATE_TEST_SUITE_P(Paths, SnakeTest, every_path(), path_name);

}  // namespace
}  // namespace tritium::ops
