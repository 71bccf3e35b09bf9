// cpu::Conv1d for every instruction set of this machine against double-precision loops.
#include "kernels/cpu/conv1d.h"

#include "ops/support.h"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <thread>

namespace tritium::cpu {
namespace {

using ops_test::Expected;
using ops_test::random_values;
using ops_test::scaled_error;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Problem {
  explicit Problem(const Conv1dShape& s, bool with_bias = true, std::size_t offset = 0)
      : shape(s),
        x(random_values(index(s.in * s.length) + offset, 1)),
        w(random_values(index(s.in * s.out * s.kernel) + offset, 2)),
        bias(random_values(index(s.out) + offset, 3)),
        has_bias(with_bias),
        start(offset) {}

  [[nodiscard]] std::vector<float> run(Isa isa, int threads = 1) const {
    const Conv1d kernel(shape, isa);
    std::vector<float> y(index(shape.out * shape.output_length()) + start + kGuard, kUnwritten);
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        kernel.compute(t, threads, x.data() + start, w.data() + start, has_bias ? bias.data() + start : nullptr, y.data() + start);
      });
    workers.clear();
    for (std::size_t i = 0; i < kGuard; ++i) EXPECT_EQ(y[y.size() - 1 - i], kUnwritten) << "written beyond the end";
    return {y.begin() + static_cast<std::ptrdiff_t>(start), y.end() - kGuard};
  }

  [[nodiscard]] Expected expected() const {
    const std::int64_t length = shape.output_length();
    Expected out(index(shape.out * length));
    for (std::int64_t o = 0; o < shape.out; ++o)
      for (std::int64_t t = 0; t < length; ++t) {
        if (has_bias) out.add(index(o * length + t), static_cast<double>(bias[index(o) + start]));
        for (std::int64_t i = 0; i < shape.in; ++i)
          for (std::int64_t k = 0; k < shape.kernel; ++k) {
            const std::int64_t at = t - shape.padding + k * shape.dilation;
            if (at < 0 || at >= shape.length) continue;
            out.add(index(o * length + t), static_cast<double>(x[index(i * shape.length + at) + start]) *
                                               static_cast<double>(w[index((o * shape.in + i) * shape.kernel + k) + start]));
          }
      }
    return out;
  }

  static constexpr std::size_t kGuard = 64;
  static constexpr float kUnwritten = 12345.0f;
  Conv1dShape shape;
  std::vector<float> x, w, bias;
  bool has_bias;
  std::size_t start;
};

void expect_correct(const Conv1dShape& s, bool bias = true, std::size_t offset = 0) {
  const Problem problem(s, bias, offset);
  const Expected expected = problem.expected();
  const double tolerance = 2.5e-7 * std::sqrt(static_cast<double>(s.in * s.kernel) + 16.0);
  for (const Isa isa : usable_isas())
    EXPECT_LE(scaled_error(problem.run(isa), expected), tolerance)
        << isa_name(isa) << ' ' << s.in << "->" << s.out << " kernel " << s.kernel << " dilation " << s.dilation << " length " << s.length
        << " padding " << s.padding << " +" << offset;
}

// Every way in which the output channels split into register blocks.
TEST(Conv1dKernel, OutputChannels) {
  for (std::int64_t out = 1; out <= 19; ++out) expect_correct({5, out, 3, 50, 1, 1});
  for (const std::int64_t out : {31, 32, 33, 64, 65, 72, 129}) expect_correct({3, out, 3, 50, 1, 1});
}

TEST(Conv1dKernel, InputChannelsKernelsAndDilations) {
  for (const std::int64_t in : {1, 3, 8, 24, 40, 56, 72})
    for (const auto& [kernel, dilation] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{3, 5}, std::pair{7, 3}, std::pair{11, 5}})
      expect_correct({in, 9, kernel, 77, (kernel - 1) * dilation / 2, dilation});
}

// All lengths around register tiles, for each number of rows.
TEST(Conv1dKernel, Lengths) {
  for (std::int64_t length = 1; length <= 150; ++length) expect_correct({2, 15, 3, length, 1, 1});
  for (const std::int64_t length : {383, 384, 385, 4031, 4032, 4033, 8100}) expect_correct({2, 3, 7, length, 9, 3});
}

TEST(Conv1dKernel, WideInputsAreCutIntoShortBlocks) {
  expect_correct({1500, 10, 3, 300, 1, 1});
  expect_correct({700, 10, 11, 500, 25, 5});
}

TEST(Conv1dKernel, PaddingMayExceedTheSignal) {
  for (const std::int64_t padding : {0, 1, 30, 200}) expect_correct({3, 5, 7, 40, padding, 4}, false);
  expect_correct({3, 5, 1, 1, 100, 1});
}

TEST(Conv1dKernel, MisalignedPointers) {
  for (const std::size_t offset : {1u, 3u, 7u}) expect_correct({9, 15, 3, 131, 1, 1}, true, offset);
}

TEST(Conv1dKernel, C1_OutliersAndSilence) {
  const Conv1dShape shape{20, 17, 7, 203, 9, 3};
  Problem problem(shape);
  for (std::size_t i = 0; i < 203; ++i) problem.x[5 * 203 + i] = 0;
  problem.x[203 + 100] = 1e6f;
  problem.x[7 * 203 + 202] = -1e7f;
  problem.x[9 * 203] = 1e-30f;
  const Expected expected = problem.expected();
  for (const Isa isa : usable_isas()) EXPECT_LE(scaled_error(problem.run(isa), expected), 4e-6) << isa_name(isa);
}

TEST(Conv1dKernel, C1_NotANumberAndInfinityAreNotSwallowed) {
  const Conv1dShape shape{3, 5, 3, 64, 1, 1};
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Problem problem(shape);
    problem.x[64 + 40] = bad;
    for (const Isa isa : usable_isas()) {
      const std::vector<float> y = problem.run(isa);
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i % 64 < 39 || i % 64 > 41) << isa_name(isa) << ' ' << i;
    }
  }
}

TEST(Conv1dKernel, ResultDoesNotDependOnTheNumberOfThreads) {
  for (const Conv1dShape& s :
       {Conv1dShape{40, 200, 3, 60, 1, 1}, Conv1dShape{3, 2, 11, 9000, 25, 5}, Conv1dShape{300, 70, 3, 1000, 1, 1}}) {
    const Problem problem(s);
    for (const Isa isa : usable_isas()) {
      const std::vector<float> one = problem.run(isa);
      for (const int threads : {2, 3, 16}) EXPECT_EQ(problem.run(isa, threads), one) << isa_name(isa) << ' ' << threads;
    }
  }
}

}  // namespace
}  // namespace tritium::cpu
