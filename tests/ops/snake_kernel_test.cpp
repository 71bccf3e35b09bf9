// cpu::alias_free_snake for every instruction set of this machine: same bits everywhere, and the accuracy of its sine.
#include "kernels/cpu/snake.h"

#include "ops/support.h"

#include <gtest/gtest.h>
#include <cmath>
#include <cstdio>
#include <thread>

namespace tritium::cpu {
namespace {

using ops_test::random_values;

struct Problem {
  Problem(std::int64_t signal_length, std::int64_t signals, float scale)
      : length(signal_length),
        channels(signals),
        x(random_values(static_cast<std::size_t>(length * channels), 1, scale)),
        frequency(random_values(static_cast<std::size_t>(channels), 2, 3.0f)),
        inverse(random_values(static_cast<std::size_t>(channels), 3)),
        up(random_values(14, 4)),
        down(random_values(12, 5)) {}

  [[nodiscard]] std::vector<float> run(Isa isa, int threads = 1) const {
    std::vector<float> y(x.size(), std::nanf(""));
    const SnakeArguments arguments{x.data(), y.data(), length, channels, frequency.data(), inverse.data(), up.data(), down.data()};
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) workers.emplace_back([&, t] { alias_free_snake(arguments, t, threads, isa); });
    workers.clear();
    return y;
  }

  std::int64_t length, channels;
  std::vector<float> x, frequency, inverse, up, down;
};

TEST(SnakeKernel, SameBitsForEveryInstructionSetAndNumberOfThreads) {
  for (const std::int64_t length : {1, 3, 7, 100, 511, 512, 513, 517, 518, 519, 1500})
    for (const float scale : {1.0f, 1e5f}) {  // the larger one takes the library's sine
      const Problem problem(length, 5, scale);
      const std::vector<float> expected = problem.run(Isa::generic);
      for (const Isa isa : usable_isas())
        for (const int threads : {1, 2, 3, 16})
          EXPECT_EQ(problem.run(isa, threads), expected) << isa_name(isa) << ' ' << length << ' ' << threads;
    }
}

// Filters that pass the even values through: y = x + sin(frequency·x)². With tiny x the result is the square of the sine.
double worst_sine_squared_error(float frequency, std::int64_t count) {
  Problem problem(count, 1, 0x1p-13f);
  problem.frequency = {frequency};
  problem.inverse = {1.0f};
  problem.up.assign(14, 0.0f);
  problem.up[3] = 1.0f;
  problem.down.assign(12, 0.0f);
  problem.down[5] = 1.0f;
  const std::vector<float> y = problem.run(usable_isas().items[0]);
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double sine = std::sin(static_cast<double>(frequency * problem.x[i]));
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - (static_cast<double>(problem.x[i]) + sine * sine)));
  }
  return worst;
}

// The square doubles the error of the sine where the sine is 1 and adds two roundings of 6e-8.
TEST(SnakeKernel, SineIsAccurateToSinglePrecision) {
  for (const float largest : {1.0f, 3.0f, 10.0f, 100.0f, 1000.0f, 8192.0f, 100000.0f}) {
    const double error = worst_sine_squared_error(largest * 0x1p13f, 200000);
    std::printf("sine squared, arguments up to %g: error %.3g\n", static_cast<double>(largest), error);
    EXPECT_LE(error, 3e-7) << largest;
  }
}

TEST(SnakeKernel, NotANumberStaysInSight) {
  Problem problem(600, 2, 1.0f);
  problem.x[40] = std::nanf("");
  for (const Isa isa : usable_isas()) {
    const std::vector<float> y = problem.run(isa);
    EXPECT_TRUE(std::isnan(y[40])) << isa_name(isa);
    EXPECT_FALSE(std::isnan(y[700])) << isa_name(isa);
  }
}

}  // namespace
}  // namespace tritium::cpu
