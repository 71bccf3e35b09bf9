// cpu::Int8Rows and cpu::Int8Matmul, of every instruction set of the machine, against loops in double precision.
#include "kernels/cpu/int8_matmul.h"

#include "kernels/cpu/int8_tile.h"
#include "ops/support.h"
#include "weights/quant/rotation.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

namespace tritium::cpu {
namespace {

using namespace ops_test;

struct Problem {
  Problem(std::int64_t rows, std::int64_t outputs, std::int64_t columns, std::int64_t group, float x_scale = 1.0f)
      : m(rows),
        n(outputs),
        k(columns),
        rotation(group),
        x(random_values(static_cast<std::size_t>(m * k), 1, x_scale)),
        scale(random_values(static_cast<std::size_t>(n), 2)),
        bias(random_values(static_cast<std::size_t>(n), 3)) {
    for (const float v : random_values(static_cast<std::size_t>(n * k), 4, 128.0f)) w.push_back(static_cast<std::int8_t>(std::floor(v)));
  }

  [[nodiscard]] Int8Rows input(const Int8Functions& set) const { return Int8Rows(m, k, rotation, set); }

  static void on_all(int threads, const std::function<void(int)>& work) {
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) workers.emplace_back([&, t] { work(t); });
  }

  [[nodiscard]] std::vector<std::uint8_t> quantized(const Int8Functions& set, int threads = 1) const {
    const Int8Rows rows = input(set);
    std::vector<std::uint8_t> out(rows.bytes(), 0xAA);
    on_all(threads, [&](int t) { rows.quantize(t, threads, x.data(), out.data()); });
    return out;
  }

  [[nodiscard]] std::vector<float> run(const Int8Functions& set, bool with_bias, int threads = 1) const {
    const auto decode = [this](std::int64_t begin, std::int64_t end, const std::uint8_t* stored, std::int64_t stride, std::int8_t* out) {
      for (std::int64_t row = begin; row < end; ++row, out += stride) std::memcpy(out, stored + row * k, static_cast<std::size_t>(k));
    };
    const Int8Matmul product(n, decode, input(set));
    const std::vector<std::uint8_t> q = quantized(set, threads);
    std::vector<float> y(static_cast<std::size_t>(m * n) + 1, std::nanf(""));
    on_all(threads, [&](int t) {
      product.compute(t, threads, q.data(), reinterpret_cast<const std::uint8_t*>(w.data()), scale.data(),
                      with_bias ? bias.data() : nullptr, y.data());
    });
    EXPECT_TRUE(std::isnan(y.back())) << "written beyond the end";
    y.pop_back();
    return y;
  }

  // The exact sums of the integers that quantize() gave, scaled in doubles.
  [[nodiscard]] Expected expected(const Int8Functions& set, bool with_bias) const {
    const Int8Rows rows = input(set);
    const std::vector<std::uint8_t> q = quantized(set);
    Expected out(static_cast<std::size_t>(m * n));
    for (std::int64_t row = 0; row < m; ++row)
      for (std::int64_t column = 0; column < n; ++column) {
        std::int64_t sum = 0;
        for (std::int64_t i = 0; i < k; ++i) sum += rows.value(q.data(), row, i) * w[static_cast<std::size_t>(column * k + i)];
        const auto at = static_cast<std::size_t>(row * n + column);
        out.add(at, static_cast<double>(sum) * static_cast<double>(rows.scales(q.data())[row]) *
                        static_cast<double>(scale[static_cast<std::size_t>(column)]));
        if (with_bias) out.add(at, static_cast<double>(bias[static_cast<std::size_t>(column)]));
      }
    return out;
  }

  [[nodiscard]] std::string name() const {
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " group " + std::to_string(rotation);
  }

  std::int64_t m, n, k, rotation;
  std::vector<float> x, scale, bias;
  std::vector<std::int8_t> w;
};

// Each integer is the nearest to the rotated value, which float32 gives to a few units of the row's largest last place.
void expect_quantized(const Problem& p) {
  for (const Int8Functions* functions : usable_int8_functions()) {
    const Int8Rows rows = p.input(*functions);
    const std::vector<std::uint8_t> q = p.quantized(*functions);
    for (std::int64_t row = 0; row < p.m; ++row) {
      std::vector<float> expected(p.x.begin() + row * p.k, p.x.begin() + (row + 1) * p.k);
      if (p.rotation > 0) rotate(expected, p.rotation);
      double top = 0;
      for (const float v : expected) top = std::max(top, std::abs(static_cast<double>(v)));
      const double scale = std::max(top / 127, 1e-30);
      ASSERT_NEAR(static_cast<double>(rows.scales(q.data())[row]), scale, scale * 1e-6) << p.name() << " row " << row;
      for (std::int64_t i = 0; i < p.k; ++i)
        ASSERT_NEAR(rows.value(q.data(), row, i), static_cast<double>(expected[static_cast<std::size_t>(i)]) / scale, 0.5 + 1e-4)
            << p.name() << " row " << row << " column " << i;
    }
  }
}

void expect_correct(const Problem& p) {
  expect_quantized(p);
  for (const Int8Functions* functions : usable_int8_functions())
    for (const bool bias : {false, true})
      // Three roundings.
      EXPECT_LE(scaled_error(p.run(*functions, bias), p.expected(*functions, bias)), 4e-7) << p.name() << ' ' << functions->name;
}

TEST(Int8Matmul, RowsAndColumnsAroundTiles) {
  for (const std::int64_t m : {1, 2, 3, 4, 5, 13, 14, 15, 27, 28, 29, 57})
    for (const std::int64_t n : {1, 15, 16, 17, 31, 32, 33, 65}) expect_correct({m, n, 37, 0});
}

TEST(Int8Matmul, EveryDepthAroundWordsAndVectors) {
  for (std::int64_t k = 1; k <= 135; ++k) expect_correct({15, 33, k, 0});
}

TEST(Int8Matmul, EveryRotation) {
  for (const std::int64_t group : {4, 16, 64, 256, 1024})
    for (const std::int64_t groups : {1, 2, 3, 5}) expect_correct({3, 17, group * groups, group});
}

// More columns than a group of packed weights holds.
TEST(Int8Matmul, SeveralGroupsOfColumns) { expect_correct({17, 300, 5376, 256}); }

TEST(Int8Matmul, ExtremeWeightsAndActivationsDoNotOverflow) {
  Problem p(15, 33, 25600, 0);
  std::fill(p.w.begin(), p.w.end(), std::int8_t{-128});
  std::fill(p.x.begin(), p.x.end(), -3.0f);
  expect_correct(p);
}

TEST(Int8Matmul, C1_OutliersZeroRowsAndTinyRows) {
  Problem p(5, 40, 512, 256);
  for (std::size_t i = 0; i < 512; ++i) {
    p.x[i] = 0;
    p.x[512 + i] *= 1e-36f;
    p.x[1024 + i] *= 1e6f;
    if (i % 128 == 7) p.x[1536 + i] = 1e6f;
  }
  expect_correct(p);
  for (const Int8Functions* functions : usable_int8_functions()) {
    const std::vector<float> y = p.run(*functions, false);
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(y[i], 0.0f) << functions->name;
  }
}

TEST(Int8Matmul, C1_NotANumberAndInfinityAreNotSwallowed) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
    for (const std::int64_t group : {0, 256})
      for (const Int8Functions* functions : usable_int8_functions()) {
        Problem p(20, 20, 256, group);
        p.x[3 * 256 + 255] = bad;
        const std::vector<float> y = p.run(*functions, true);
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i / 20 != 3) << i;
      }
}

// Instruction sets that fuse alike.
TEST(Int8Matmul, SameBitsOfEveryVectorWidth) {
  const auto sets = usable_int8_functions();
  for (const std::int64_t group : {0, 16, 256, 1024}) {
    const Problem p(23, 70, 2048, group);
    for (std::size_t i = 1; i + 1 < sets.size(); ++i)
      EXPECT_EQ(p.run(*sets[i], true), p.run(*sets[0], true)) << sets[i]->name << ", " << sets[0]->name << ", group " << group;
  }
}

TEST(Int8Matmul, ResultDoesNotDependOnTheNumberOfThreads) {
  const Problem p(70, 330, 2560, 256);
  for (const Int8Functions* functions : usable_int8_functions()) {
    const std::vector<float> one = p.run(*functions, true);
    for (const int threads : {2, 3, 7}) EXPECT_EQ(p.run(*functions, true, threads), one) << threads;
  }
}

}  // namespace
}  // namespace tritium::cpu
