// One-dimensional convolutions against double-precision loops.
#include "ops/convolution.h"

#include "ops/support.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

namespace tritium::ops {
namespace {

using namespace ops_test;

constexpr std::int64_t kChannelCounts[] = {1, 3, 8, 16, 24, 40, 56, 72};

double tolerance(std::int64_t terms) { return 2.5e-7 * std::sqrt(static_cast<double>(terms) + 16.0); }

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// x [in][length], w [out][in][kernel], zero padding, stride 1.
Expected convolution(std::span<const float> x, std::span<const float> w, const float* bias, std::int64_t in, std::int64_t out,
                     std::int64_t kernel, std::int64_t padding, std::int64_t dilation) {
  const std::int64_t length = static_cast<std::int64_t>(x.size()) / in, result = length + 2 * padding - dilation * (kernel - 1);
  Expected expected(index(out * result));
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t t = 0; t < result; ++t) {
      if (bias != nullptr) expected.add(index(o * result + t), static_cast<double>(bias[o]));
      for (std::int64_t i = 0; i < in; ++i)
        for (std::int64_t k = 0; k < kernel; ++k) {
          const std::int64_t at = t - padding + k * dilation;
          if (at < 0 || at >= length) continue;
          expected.add(index(o * result + t),
                       static_cast<double>(x[index(i * length + at)]) * static_cast<double>(w[index((o * in + i) * kernel + k)]));
        }
    }
  return expected;
}

class ConvolutionTest : public EveryPath {
 protected:
  struct Case {
    std::int64_t in, out, kernel, dilation, length, padding;
    bool bias = true;
  };
  static Case same_length(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t dilation, std::int64_t length) {
    return {in, out, kernel, dilation, length, (kernel - 1) * dilation / 2};
  }

  void expect_correct(const Case& c, std::int64_t max_columns = kMaxColumnValues) const {
    const std::vector<float> x = random_values(index(c.in * c.length), 1), w = random_values(index(c.in * c.out * c.kernel), 2);
    const std::vector<float> bias = random_values(index(c.out), 3);
    Weights weights(device());
    const Conv1d layer{weights.add(w, {c.kernel, c.in, c.out}), c.bias ? weights.add(bias, {c.out}) : nullptr};
    const auto y = evaluate(device(), [&](Graph& g) {
      return conv1d(g, layer, g.input("x", x, {c.length, c.in}), static_cast<int>(c.padding), static_cast<int>(c.dilation), max_columns);
    });
    const Expected expected = convolution(x, w, c.bias ? bias.data() : nullptr, c.in, c.out, c.kernel, c.padding, c.dilation);
    EXPECT_LE(scaled_error(y, expected), tolerance(c.in * c.kernel)) << c.in << "->" << c.out << " kernel " << c.kernel << " dilation "
                                                                     << c.dilation << " length " << c.length << " padding " << c.padding;
  }
};

TEST_P(ConvolutionTest, KernelsDilationsAndChannels) {
  for (const std::int64_t kernel : {1, 3, 7, 11})
    for (const std::int64_t dilation : {1, 3, 5})
      for (const std::int64_t channels : kChannelCounts) expect_correct(same_length(channels, channels, kernel, dilation, 67));
}

TEST_P(ConvolutionTest, InputAndOutputChannelsDiffer) {
  for (const std::int64_t in : kChannelCounts)
    for (const std::int64_t out : kChannelCounts) expect_correct(same_length(in, out, 3, 1, 33));
}

// Lengths around registers and blocks, and signals shorter than the kernel's reach.
TEST_P(ConvolutionTest, Lengths) {
  for (const std::int64_t length : {1, 2, 5, 15, 16, 17, 31, 47, 63, 64, 65, 127, 128, 129, 255, 257, 511, 512, 513, 1025, 2051})
    for (const auto& [kernel, dilation] : {std::pair{1, 1}, std::pair{3, 1}, std::pair{7, 3}, std::pair{11, 5}})
      expect_correct(same_length(7, 9, kernel, dilation, length));
}

TEST_P(ConvolutionTest, PaddingNeedNotKeepTheLength) {
  for (const std::int64_t padding : {0, 1, 4, 9}) {
    expect_correct({5, 6, 4, 2, 50, padding});
    expect_correct({5, 6, 7, 1, 50, padding, false});
    expect_correct({5, 6, 1, 1, 50, padding});
  }
}

TEST_P(ConvolutionTest, LongSignalsInPartsGiveTheSameResult) {
  for (const auto& [kernel, dilation] : {std::pair{1, 1}, std::pair{3, 5}, std::pair{7, 1}, std::pair{11, 5}})
    for (const std::int64_t samples : {0, 1, 13, 100, 300, 301}) {
      Case c = same_length(6, 5, kernel, dilation, 301);
      if (kernel == 7) c.padding = 1;
      if (kernel == 1) c.padding = 2;
      if (kernel == 3) c.padding = 30;  // some parts read nothing but padding
      expect_correct(c, samples * c.in * c.kernel);
    }
}

TEST_P(ConvolutionTest, ResultDoesNotDependOnTheNumberOfThreads) {
  const std::int64_t channels = 24, length = 1500;
  const std::vector<float> x = random_values(index(channels * length), 1), w = random_values(index(channels * channels * 7), 2);
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    Device& each = ops_test::device(GetParam(), threads);
    Weights weights(each);
    const Conv1d layer{weights.add(w, {7, channels, channels}), nullptr};
    const auto y = evaluate(each, [&](Graph& g) { return conv1d(g, layer, g.input("x", x, {length, channels}), 9, 3); });
    if (first.empty()) first = y;
    EXPECT_EQ(y, first) << threads;
  }
}

TEST_P(ConvolutionTest, TransposedConvolution) {
  for (const auto& [stride, kernel] : {std::pair{5, 9}, std::pair{2, 4}, std::pair{8, 16}, std::pair{4, 8}, std::pair{3, 3},
                                       std::pair{1, 3}, std::pair{2, 8}, std::pair{5, 15}})
    for (const auto& [in, out] : {std::pair{1, 1}, std::pair{3, 2}, std::pair{8, 4}, std::pair{24, 12}, std::pair{16, 40}})
      for (const std::int64_t length : {1, 2, 3, 37, 65}) {
        const std::vector<float> x = random_values(index(in * length), 1), w = random_values(index(in * out * kernel), 2);
        const std::vector<float> bias = random_values(index(out), 3);
        Weights weights(device());
        const Conv1d layer{weights.add(polyphase_weights(w, in, out, kernel, stride), {polyphase_taps(kernel, stride), in, out * stride}),
                           weights.add(bias, {out})};
        const auto y = evaluate(device(), [&](Graph& g) {
          return transposed_conv1d(g, layer, g.input("x", x, {length, in}), out, stride);
        });
        const std::int64_t padding = (kernel - stride) / 2, result = length * stride;
        Expected expected(index(out * result));
        for (std::int64_t o = 0; o < out; ++o) {
          for (std::int64_t n = 0; n < result; ++n) expected.add(index(o * result + n), static_cast<double>(bias[index(o)]));
          for (std::int64_t i = 0; i < in; ++i)
            for (std::int64_t m = 0; m < length; ++m)
              for (std::int64_t q = 0; q < kernel; ++q) {
                const std::int64_t n = m * stride + q - padding;
                if (n < 0 || n >= result) continue;
                expected.add(index(o * result + n),
                             static_cast<double>(x[index(i * length + m)]) * static_cast<double>(w[index((i * out + o) * kernel + q)]));
              }
        }
        EXPECT_LE(scaled_error(y, expected), tolerance(in * kernel))
            << "stride " << stride << " kernel " << kernel << ' ' << in << "->" << out << " length " << length;
      }
}

TEST_P(ConvolutionTest, PadReplicate) {
  for (const std::int64_t length : {1, 2, 17})
    for (const std::int64_t channels : {1, 5})
      for (const auto& [before, after] : {std::pair{0, 0}, std::pair{3, 3}, std::pair{0, 4}, std::pair{6, 0}, std::pair{20, 1}}) {
        const std::vector<float> x = random_values(index(length * channels), 1);
        const auto y = evaluate(device(), [&](Graph& g) { return pad_replicate(g, g.input("x", x, {length, channels}), before, after); });
        std::vector<float> expected;
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t t = -before; t < length + after; ++t)
            expected.push_back(x[index(c * length + std::clamp<std::int64_t>(t, 0, length - 1))]);
        EXPECT_EQ(y, expected) << length << ' ' << channels << ' ' << before << ' ' << after;
      }
}

INSTANTIATE_TEST_SUITE_P(Paths, ConvolutionTest, every_path(), path_name);

}  // namespace
}  // namespace tritium::ops
