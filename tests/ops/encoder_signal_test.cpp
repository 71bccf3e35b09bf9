// The operations of the audio encoder, the Snake activation and the strided convolution, against double-precision loops.
#include "kernels/cpu/pointwise_snake.h"
#include "ops/pointwise_snake.h"
#include "ops/strided_conv1d.h"
#include "ops/support.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <thread>

namespace tritium::ops {
namespace {

using namespace ops_test;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// --- activation -------------------------------------------------------------------------------------------------------------------

struct Signal {
  Signal(std::int64_t samples, std::int64_t count, float scale = 3.0f)
      : length(samples),
        channels(count),
        x(random_values(index(samples * count), 1, scale)),
        frequency(random_values(index(count), 2, 2.0f)),
        inverse_magnitude(random_values(index(count), 3, 2.0f)) {}

  [[nodiscard]] std::vector<double> expected() const {
    std::vector<double> out;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i / index(length);
      const float angle = frequency[c] * x[i];  // rounded, as in the reference
      out.push_back(static_cast<double>(x[i]) +
                    std::pow(std::sin(static_cast<double>(angle)), 2) * static_cast<double>(inverse_magnitude[c]));
    }
    return out;
  }

  [[nodiscard]] std::vector<float> run_kernel(cpu::Isa isa, int threads = 1) const {
    std::vector<float> y(x.size());
    const cpu::PointwiseSnakeArguments arguments{x.data(), y.data(), length, channels, frequency.data(), inverse_magnitude.data()};
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) workers.emplace_back([&, t] { cpu::pointwise_snake(arguments, t, threads, isa); });
    workers.clear();
    return y;
  }

  std::int64_t length, channels;
  std::vector<float> x, frequency, inverse_magnitude;
};

TEST(PointwiseSnakeKernel, LengthsAndChannels) {
  for (const std::int64_t length : {1, 2, 15, 16, 511, 512, 513, 1023, 1024, 1025, 3000})
    for (const std::int64_t channels : {1, 3}) {
      const Signal signal(length, channels);
      for (const cpu::Isa isa : cpu::usable_isas())
        EXPECT_LE(absolute_error(signal.run_kernel(isa), signal.expected()), 2e-6) << isa_name(isa) << ' ' << length << ' ' << channels;
    }
}

TEST(PointwiseSnakeKernel, LargeArgumentsAndNan) {
  Signal signal(700, 2, 1e5f);
  for (const cpu::Isa isa : cpu::usable_isas()) EXPECT_LE(absolute_error(signal.run_kernel(isa), signal.expected()), 0.02) << isa_name(isa);
  signal.x[650] = std::nanf("");
  for (const cpu::Isa isa : cpu::usable_isas()) {
    const auto y = signal.run_kernel(isa);
    EXPECT_TRUE(std::isnan(y[650])) << isa_name(isa);
    EXPECT_EQ(std::count_if(y.begin(), y.end(), [](float v) { return std::isnan(v); }), 1) << isa_name(isa);
  }
}

TEST(PointwiseSnakeKernel, SameBitsForEveryInstructionSetAndNumberOfThreads) {
  const Signal signal(5000, 5);
  const std::vector<float> one = signal.run_kernel(cpu::Isa::generic);
  for (const cpu::Isa isa : cpu::usable_isas())
    for (const int threads : {1, 2, 7}) EXPECT_EQ(signal.run_kernel(isa, threads), one) << isa_name(isa) << ' ' << threads;
}

class EncoderSignalTest : public EveryPath {};

TEST_P(EncoderSignalTest, PointwiseSnake) {
  for (const std::int64_t length : {1, 7, 1500})
    for (const std::int64_t channels : {1, 5}) {
      const Signal signal(length, channels);
      Weights weights(device());
      const PointwiseSnake layer{weights.add(signal.frequency, {channels}), weights.add(signal.inverse_magnitude, {channels})};
      const auto y = evaluate(device(), [&](Graph& graph) {
        return pointwise_snake(graph, layer, graph.input("x", signal.x, {length, channels}));
      });
      EXPECT_LE(absolute_error(y, signal.expected()), 2e-6) << length << ' ' << channels;
    }
}

// --- convolution ------------------------------------------------------------------------------------------------------------------

// Straight from the definition, with the weights in torch's order: kernel 2·stride, padding ceil(stride/2).
Expected strided_reference(std::span<const float> x, std::span<const float> w, std::span<const float> bias, std::int64_t in,
                           std::int64_t out, std::int64_t length, std::int64_t stride) {
  const std::int64_t kernel = 2 * stride, padding = (stride + 1) / 2, samples = (length + 2 * padding - kernel) / stride + 1;
  Expected y(index(out * samples));
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t t = 0; t < samples; ++t) {
      y.add(index(o * samples + t), static_cast<double>(bias[index(o)]));
      for (std::int64_t i = 0; i < in; ++i)
        for (std::int64_t k = 0; k < kernel; ++k) {
          const std::int64_t at = t * stride + k - padding;
          if (at < 0 || at >= length) continue;
          y.add(index(o * samples + t),
                static_cast<double>(x[index(i * length + at)]) * static_cast<double>(w[index((o * in + i) * kernel + k)]));
        }
    }
  return y;
}

TEST_P(EncoderSignalTest, StridedConvolution) {
  for (const std::int64_t stride : {2, 3, 4, 5, 8})
    for (const auto& [in, out] : {std::pair{1, 1}, std::pair{3, 6}, std::pair{24, 48}, std::pair{40, 9}})
      for (const std::int64_t groups : {1, 2, 7, 60}) {
        const std::int64_t length = stride * groups;
        const std::vector<float> x = random_values(index(in * length), 1), w = random_values(index(out * in * 2 * stride), 2),
                                 bias = random_values(index(out), 3);
        Weights weights(device());
        const Conv1d layer{weights.add(strided_weights(w, in, out, stride), {2, in * stride, out}), weights.add(bias, {out})};
        const auto y = evaluate(device(), [&](Graph& graph) {
          ggml_tensor* result = strided_conv1d(graph, layer, graph.input("x", x, {length, in}), stride);
          EXPECT_EQ(result->ne[0], groups);
          return result;
        });
        EXPECT_LE(scaled_error(y, strided_reference(x, w, bias, in, out, length, stride)), 2e-6)
            << stride << ' ' << in << "->" << out << ' ' << groups;
      }
}

INSTANTIATE_TEST_SUITE_P(Paths, EncoderSignalTest, every_path(), path_name);

}  // namespace
}  // namespace tritium::ops
