// The causal 3x3x3 convolution against double-precision loops: the kernel for every instruction set of this machine, and the operation
// with and without it.
#include "ops/conv3d.h"

#include "kernels/cpu/conv3d.h"
#include "ops/support.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <thread>

namespace tritium::ops {
namespace {

using cpu::Conv3dShape;
using ops_test::EveryPath;
using ops_test::Expected;
using ops_test::random_values;
using ops_test::scaled_error;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

std::int64_t reflected(std::int64_t i, std::int64_t size) { return i < 0 ? -i : i < size ? i : 2 * size - 2 - i; }

struct Problem {
  explicit Problem(const Conv3dShape& s, bool with_before = false)
      : shape(s),
        has_before(with_before),
        frame_values(s.width * s.height * s.in),
        x(random_values(index(s.frames * frame_values), 1)),
        before(random_values(index(2 * frame_values), 2)),
        torch_weights(random_values(index(s.out * s.in * 27), 3)),
        weights(conv3d_weights(torch_weights, s.in, s.out)),
        bias(random_values(index(s.out), 4)) {}

  // Straight from the definition, with the weights in torch's order.
  [[nodiscard]] Expected expected() const {
    const std::int64_t width = shape.output_width(), height = shape.output_height(), margin = shape.space_stride == 1 ? 1 : 0;
    Expected out(index(shape.positions() * shape.out));
    for (std::int64_t i = 0; i < shape.positions(); ++i) {
      const std::int64_t t = i / (width * height), y = i / width % height, column = i % width;
      for (std::int64_t o = 0; o < shape.out; ++o) out.add(index(i * shape.out + o), static_cast<double>(bias[index(o)]));
      for (std::int64_t tap = 0; tap < 27; ++tap) {
        const std::int64_t frame = shape.phase + t * shape.time_stride + tap / 9 - 2;
        if (frame < 0 && !has_before) continue;
        const float* from = frame < 0 ? &before[index((frame + 2) * frame_values)] : &x[index(frame * frame_values)];
        const std::int64_t row = reflected(y * shape.space_stride - margin + tap / 3 % 3, shape.height);
        from += (row * shape.width + reflected(column * shape.space_stride - margin + tap % 3, shape.width)) * shape.in;
        for (std::int64_t o = 0; o < shape.out; ++o)
          for (std::int64_t c = 0; c < shape.in; ++c)
            out.add(index(i * shape.out + o),
                    static_cast<double>(from[c]) * static_cast<double>(torch_weights[index((o * shape.in + c) * 27 + tap)]));
      }
    }
    return out;
  }

  [[nodiscard]] std::vector<float> run_kernel(cpu::Isa isa, int threads = 1, bool with_bias = true) const {
    const cpu::Conv3d kernel(shape, isa);
    std::vector<float> y(index(shape.positions() * shape.out) + kGuard, kUnwritten);
    const cpu::Conv3dArguments arguments{x.data(), has_before ? before.data() : nullptr, weights.data(), with_bias ? bias.data() : nullptr,
                                         y.data()};
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) workers.emplace_back([&, t] { kernel.compute(t, threads, arguments); });
    workers.clear();
    for (std::size_t i = 0; i < kGuard; ++i) EXPECT_EQ(y[y.size() - 1 - i], kUnwritten) << "written beyond the end";
    return {y.begin(), y.end() - kGuard};
  }

  [[nodiscard]] std::vector<float> run_operation(Device& device, std::int64_t max_columns = kMaxConv3dColumns) const {
    ops_test::Weights stored(device);
    const Conv3d layer{stored.add(weights, {shape.out, shape.in, 27}), stored.add(bias, {shape.out})};
    const Conv3dStride stride{static_cast<int>(shape.space_stride), static_cast<int>(shape.time_stride), static_cast<int>(shape.phase)};
    return ops_test::evaluate(device, [&](Graph& graph) {
      ggml_tensor* input = graph.input("x", x, {shape.in, shape.width, shape.height, shape.frames});
      ggml_tensor* past = has_before ? graph.input("before", before, {shape.in, shape.width, shape.height, 2}) : nullptr;
      ggml_tensor* y = conv3d(graph, layer, input, past, stride, max_columns);
      EXPECT_EQ(y->ne[0], shape.out);
      EXPECT_EQ(y->ne[1], shape.output_width());
      EXPECT_EQ(y->ne[2], shape.output_height());
      EXPECT_EQ(y->ne[3], shape.output_frames());
      return y;
    });
  }

  static constexpr std::size_t kGuard = 64;
  static constexpr float kUnwritten = 12345.0f;
  Conv3dShape shape;
  bool has_before;
  std::int64_t frame_values;
  std::vector<float> x, before, torch_weights, weights, bias;
};

double tolerance(const Conv3dShape& s) { return 2.5e-7 * std::sqrt(static_cast<double>(27 * s.in) + 16.0); }

std::string text(const Conv3dShape& s, bool before) {
  return ::testing::PrintToString(
             std::vector<std::int64_t>{s.in, s.out, s.width, s.height, s.frames, s.space_stride, s.time_stride, s.phase}) +
         (before ? " with frames before" : "");
}

void expect_correct(const Conv3dShape& s, bool before = false) {
  const Problem problem(s, before);
  const Expected expected = problem.expected();
  for (const cpu::Isa isa : cpu::usable_isas())
    EXPECT_LE(scaled_error(problem.run_kernel(isa), expected), tolerance(s)) << isa_name(isa) << ' ' << text(s, before);
}

TEST(Conv3dKernel, OutputChannels) {
  for (const std::int64_t out : {1, 2, 15, 16, 17, 31, 32, 33, 48, 127, 128, 129, 200}) expect_correct({3, out, 5, 4, 2});
}

// Terms of the sum that end within a tap, a line of taps or a slice.
TEST(Conv3dKernel, InputChannels) {
  for (const std::int64_t in : {1, 2, 3, 7, 8, 9, 10, 28, 29, 32, 85, 86, 128, 255, 256, 257, 600})
    expect_correct({in, 5, 4, 3, 2}, in % 2 == 0);
}

TEST(Conv3dKernel, Sizes) {
  for (const std::int64_t width : {2, 3, 4, 13, 14, 15, 42, 43})
    for (const std::int64_t height : {2, 3, 7})
      for (const std::int64_t frames : {1, 2, 3}) expect_correct({4, 6, width, height, frames}, (width + height) % 2 == 0);
}

TEST(Conv3dKernel, StridesAndPhases) {
  for (const std::int64_t frames : {1, 2, 4, 5, 9})
    for (const std::int64_t space : {1, 2})
      for (const std::int64_t time : {1, 2, 3, 4})
        for (std::int64_t phase = 0; phase < std::min(time, frames); ++phase)
          for (const bool before : {false, true}) expect_correct({5, 9, 6, 4, frames, space, time, phase}, before);
}

TEST(Conv3dKernel, ManyUnits) { expect_correct({2, 300, 40, 36, 2}); }

TEST(Conv3dKernel, WithoutBias) {
  Problem problem({3, 40, 9, 5, 2});
  for (const cpu::Isa isa : cpu::usable_isas()) {
    const std::vector<float> without = problem.run_kernel(isa, 1, false);
    Problem zero = problem;
    std::fill(zero.bias.begin(), zero.bias.end(), 0.0f);
    EXPECT_LE(scaled_error(without, zero.expected()), tolerance(problem.shape)) << isa_name(isa);
  }
}

TEST(Conv3dKernel, C1_OutliersAndBlackFrames) {
  Problem problem({19, 33, 9, 7, 3}, true);
  std::fill_n(problem.x.begin(), problem.frame_values, 0.0f);
  problem.x[index(problem.frame_values + 200)] = 1e6f;
  problem.x[index(2 * problem.frame_values + 17)] = -1e7f;
  problem.before[3] = 1e-30f;
  const Expected expected = problem.expected();
  for (const cpu::Isa isa : cpu::usable_isas()) EXPECT_LE(scaled_error(problem.run_kernel(isa), expected), 6e-6) << cpu::isa_name(isa);
}

TEST(Conv3dKernel, C1_NotANumberReachesItsNeighboursAlone) {
  Problem problem({2, 5, 8, 8, 1});
  problem.x[(3 * 8 + 4) * 2] = std::nanf("");
  for (const cpu::Isa isa : cpu::usable_isas()) {
    const std::vector<float> y = problem.run_kernel(isa);
    for (std::int64_t i = 0; i < 64; ++i) {
      const bool near = std::abs(i / 8 - 3) <= 1 && std::abs(i % 8 - 4) <= 1;
      for (std::int64_t o = 0; o < 5; ++o) EXPECT_EQ(std::isnan(y[index(i * 5 + o)]), near) << cpu::isa_name(isa) << ' ' << i;
    }
  }
}

TEST(Conv3dKernel, ResultDoesNotDependOnTheNumberOfThreads) {
  for (const Conv3dShape& s : {Conv3dShape{32, 32, 24, 24, 3}, Conv3dShape{60, 300, 6, 6, 2}, Conv3dShape{3, 40, 30, 20, 5, 2, 2, 1}}) {
    const Problem problem(s, true);
    for (const cpu::Isa isa : cpu::usable_isas()) {
      const std::vector<float> one = problem.run_kernel(isa);
      for (const int threads : {2, 3, 16}) EXPECT_EQ(problem.run_kernel(isa, threads), one) << isa_name(isa) << ' ' << threads;
    }
  }
}

class Conv3dTest : public EveryPath {};

TEST_P(Conv3dTest, ChannelsSizesAndFrames) {
  for (const auto& [in, out] :
       {std::pair{3, 32}, std::pair{1, 1}, std::pair{24, 40}, std::pair{40, 24}, std::pair{64, 48}, std::pair{130, 70}})
    for (const auto& [width, height] : {std::pair{2, 2}, std::pair{8, 6}, std::pair{3, 5}})
      for (const std::int64_t frames : {1, 2, 4})
        for (const bool before : {false, true}) {
          const Problem problem({in, out, width, height, frames}, before);
          EXPECT_LE(scaled_error(problem.run_operation(device()), problem.expected()), tolerance(problem.shape))
              << text(problem.shape, before);
        }
}

TEST_P(Conv3dTest, StridesAndPhases) {
  for (const std::int64_t frames : {1, 2, 4, 5})
    for (const std::int64_t space : {1, 2})
      for (const std::int64_t time : {1, 2, 3})
        for (std::int64_t phase = 0; phase < std::min(time, frames); ++phase)
          for (const bool before : {false, true}) {
            const Problem problem({6, 10, 8, 4, frames, space, time, phase}, before);
            EXPECT_LE(scaled_error(problem.run_operation(device()), problem.expected()), tolerance(problem.shape))
                << text(problem.shape, before);
          }
}

// The unfolded input in slices of one row, of some rows and as a whole.
TEST_P(Conv3dTest, LimitOfTheUnfoldedInput) {
  for (const std::int64_t space : {1, 2})
    for (const std::int64_t rows : {0, 1, 3, 4, 100}) {
      const Problem problem({7, 9, 8, 14, 4, space, 2, 1}, true);
      const std::int64_t row = 9 * problem.shape.in * problem.shape.output_width() * (problem.shape.frames + 2);
      EXPECT_LE(scaled_error(problem.run_operation(device(), rows * row + row / 2), problem.expected()), tolerance(problem.shape))
          << space << ' ' << rows;
    }
}

INSTANTIATE_TEST_SUITE_P(Paths, Conv3dTest, ops_test::every_path(), ops_test::path_name);

}  // namespace
}  // namespace tritium::ops
