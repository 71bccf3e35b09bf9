// Group normalisation against double-precision loops, with and without the CPU kernel.
#include "ops/group_norm.h"

#include "ops/support.h"

#include <gtest/gtest.h>
#include <cmath>

namespace tritium::ops {
namespace {

using namespace ops_test;

constexpr float kEps = 1e-6f;

struct Shape {
  std::int64_t channels, groups, width, height, frames;
  [[nodiscard]] std::int64_t positions() const { return width * height; }
  [[nodiscard]] std::size_t values() const { return static_cast<std::size_t>(channels * positions() * frames); }
};

std::vector<double> reference(const Shape& s, std::span<const float> x, std::span<const float> weight, std::span<const float> bias) {
  std::vector<double> out = widened(x);
  const std::int64_t per_group = s.channels / s.groups;
  const auto at = [&](std::int64_t frame, std::int64_t position, std::int64_t channel) -> double& {
    return out[static_cast<std::size_t>((frame * s.positions() + position) * s.channels + channel)];
  };
  for (std::int64_t frame = 0; frame < s.frames; ++frame)
    for (std::int64_t group = 0; group < s.groups; ++group) {
      const auto count = static_cast<double>(per_group * s.positions());
      const auto each = [&](const auto& visit) {
        for (std::int64_t i = 0; i < s.positions(); ++i)
          for (std::int64_t c = group * per_group; c < (group + 1) * per_group; ++c) visit(at(frame, i, c), static_cast<std::size_t>(c));
      };
      double mean = 0, variance = 0;
      each([&](double v, std::size_t) { mean += v / count; });
      each([&](double v, std::size_t) { variance += (v - mean) * (v - mean) / count; });
      each([&](double& v, std::size_t c) {
        v = (v - mean) / std::sqrt(variance + static_cast<double>(kEps)) * static_cast<double>(weight[c]) + static_cast<double>(bias[c]);
      });
    }
  return out;
}

std::vector<float> run(Device& device, const Shape& s, std::span<const float> x, std::span<const float> weight,
                       std::span<const float> bias) {
  Weights weights(device);
  ggml_tensor* w = weights.add(weight, {s.channels});
  ggml_tensor* b = weights.add(bias, {s.channels});
  return evaluate(device, [&](Graph& graph) {
    return group_norm(graph, graph.input("x", x, {s.channels, s.width, s.height, s.frames}), w, b, static_cast<int>(s.groups), kEps);
  });
}

class GroupNormTest : public EveryPath {};

TEST_P(GroupNormTest, ChannelsGroupsAndSizes) {
  for (const auto& [channels, groups] :
       {std::pair{32, 32}, std::pair{64, 32}, std::pair{3, 1}, std::pair{5, 5}, std::pair{128, 32}, std::pair{1024, 32}})
    for (const auto& [width, height] : {std::pair{1, 1}, std::pair{2, 2}, std::pair{7, 5}, std::pair{33, 32}})
      for (const std::int64_t frames : {1, 3}) {
        const Shape s{channels, groups, width, height, frames};
        std::vector<float> x = random_values(s.values(), 1, 3.0f);
        for (std::size_t i = 0; i < x.size(); ++i)
          x[i] += static_cast<float>(i / (x.size() / static_cast<std::size_t>(frames))) * 5.0f;  // frames differ
        const std::vector<float> weight = random_values(static_cast<std::size_t>(channels), 2),
                                 bias = random_values(static_cast<std::size_t>(channels), 3);
        EXPECT_LE(absolute_error(run(device(), s, x, weight, bias), reference(s, x, weight, bias)), 1e-5)
            << channels << '/' << groups << ' ' << width << 'x' << height << 'x' << frames;
      }
}

// A group of zeros gives its bias, and an outlier of 1e6 leaves its group accurate.
TEST_P(GroupNormTest, C1_ZerosAndOutliers) {
  const Shape s{64, 32, 9, 7, 2};
  std::vector<float> x = random_values(s.values(), 1, 3.0f);
  for (std::size_t i = 0; i < x.size(); i += 64) x[i] = x[i + 1] = 0;
  x[5 * 64 + 10] = 1e6f;
  x[70 * 64 + 33] = -1e7f;
  const std::vector<float> weight = random_values(64, 2), bias = random_values(64, 3);
  const std::vector<float> y = run(device(), s, x, weight, bias);
  EXPECT_LE(absolute_error(y, reference(s, x, weight, bias)), 2e-5);
  for (std::size_t i = 0; i < y.size(); i += 64) EXPECT_EQ(y[i], bias[0]);
}

// A large common offset must not eat the variance.
TEST_P(GroupNormTest, LargeMean) {
  const Shape s{64, 32, 48, 48, 2};
  std::vector<float> x = random_values(s.values(), 1);
  for (float& v : x) v += 1000.0f;
  const std::vector<float> weight(64, 1.0f), bias(64, 0.0f);
  EXPECT_LE(absolute_error(run(device(), s, x, weight, bias), reference(s, x, weight, bias)), 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Paths, GroupNormTest, every_path(), path_name);

TEST(GroupNorm, ResultDoesNotDependOnTheNumberOfThreads) {
  const Shape s{64, 32, 96, 97, 3};
  const std::vector<float> x = random_values(s.values(), 1), weight = random_values(64, 2), bias = random_values(64, 3);
  const std::vector<float> one = run(device(Path::fast, 1), s, x, weight, bias);
  for (const int threads : {2, 3}) EXPECT_EQ(run(device(Path::fast, threads), s, x, weight, bias), one);
}

}  // namespace
}  // namespace tritium::ops
