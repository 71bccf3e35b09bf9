// The row operations of every instruction set of the machine against doubles, and against each other.
#include "kernels/cpu/rows.h"

#include "ops/support.h"
#include "weights/dtype.h"

#include <gtest/gtest.h>
#include <array>
#include <cmath>
#include <limits>

namespace tritium::cpu {
namespace {

using namespace ops_test;

// One long allocation, so that rows begin anywhere.
constexpr std::size_t kMost = 1100;

TEST(RowKernels, EveryLengthOnEveryInstructionSetHasTheSameBits) {
  const auto x = random_values(kMost, 1, 3.0f), w = random_values(kMost, 2), scale = random_values(kMost, 3),
             shift = random_values(kMost, 4);
  for (std::size_t n = 1; n <= kMost; n += n < 70 ? 1 : 103) {
    const auto count = static_cast<std::int64_t>(n);
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const double factor = 1 / std::sqrt(sum / static_cast<double>(n) + 1e-5);
    std::vector<float> first;
    for (const Isa isa : usable_isas()) {
      std::vector<float> y(n + 1, 7.0f), z(n + 1, 7.0f);
      row_functions(isa).modulated_norm(x.data(), w.data(), scale.data(), shift.data(), count, 1e-5f, y.data(), Stores::cached);
      row_functions(isa).gated_add(x.data(), w.data(), scale.data(), count, z.data(), Stores::cached);
      for (std::size_t i = 0; i < n; ++i) {
        const double normed = static_cast<double>(x[i]) * factor * static_cast<double>(w[i]);
        ASSERT_NEAR(static_cast<double>(y[i]), normed * (1 + static_cast<double>(scale[i])) + static_cast<double>(shift[i]), 4e-6) << n;
        ASSERT_NEAR(static_cast<double>(z[i]), static_cast<double>(x[i]) + static_cast<double>(w[i]) * static_cast<double>(scale[i]), 4e-7);
      }
      EXPECT_EQ(y.back(), 7.0f);
      EXPECT_EQ(z.back(), 7.0f);
      y.insert(y.end(), z.begin(), z.end());
      if (first.empty()) first = y;
      EXPECT_EQ(y, first) << isa_name(isa) << ' ' << n;
    }
  }
}

// A row of zeros gives the shift, and one of outliers keeps the accuracy of float32.
TEST(RowKernels, C1_ZerosAndOutliers) {
  constexpr std::int64_t kCount = 1000;
  const auto w = random_values(kCount, 2), scale = random_values(kCount, 3), shift = random_values(kCount, 4);
  std::vector<float> outliers = random_values(kCount, 1, 1e6f);
  outliers[17] = 1e9f;
  outliers[999] = -1e-30f;
  double sum = 0;
  for (const float v : outliers) sum += static_cast<double>(v) * static_cast<double>(v);
  const double factor = 1 / std::sqrt(sum / kCount + 1e-5);
  for (const Isa isa : usable_isas()) {
    std::vector<float> zeros(kCount), y(kCount), z(kCount);
    row_functions(isa).modulated_norm(zeros.data(), w.data(), scale.data(), shift.data(), kCount, 1e-5f, y.data(), Stores::cached);
    EXPECT_EQ(y, shift) << isa_name(isa);
    row_functions(isa).modulated_norm(outliers.data(), w.data(), scale.data(), shift.data(), kCount, 1e-5f, y.data(), Stores::cached);
    row_functions(isa).gated_add(outliers.data(), w.data(), scale.data(), kCount, z.data(), Stores::cached);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double normed = static_cast<double>(outliers[i]) * factor * static_cast<double>(w[i]);
      ASSERT_NEAR(static_cast<double>(y[i]), normed * (1 + static_cast<double>(scale[i])) + static_cast<double>(shift[i]), 2e-5) << i;
      const double gated = static_cast<double>(outliers[i]) + static_cast<double>(w[i]) * static_cast<double>(scale[i]);
      ASSERT_NEAR(static_cast<double>(z[i]), gated, std::abs(gated) * 2e-7 + 1e-7) << i;
    }
  }
}

// Streamed rows have the bits of others, whole pieces or not, and nothing is written beside them.
TEST(RowKernels, StreamedRowsHaveTheSameBits) {
  constexpr std::int64_t kHeads = 3, kHeadWidth = 64, kStride = 80;
  const auto x = random_values(2 * kMost, 1, 3.0f), w = random_values(kMost, 2), scale = random_values(kMost, 3),
             shift = random_values(kMost, 4);
  const auto results = [&](const RowFunctions& run, std::int64_t count, std::size_t offset, Stores stores) {
    alignas(64) std::array<float, 3 * (kMost + 20)> space;
    space.fill(7.0f);
    float* y = space.data() + offset;
    run.modulated_norm(x.data(), w.data(), scale.data(), shift.data(), count, 1e-5f, y, stores);
    run.gated_add(x.data(), w.data(), scale.data(), count, y + 1120, stores);
    run.norm_rotate(x.data(), kHeads, kStride, w.data(), scale.data(), shift.data(), 24, kHeadWidth, 1e-5f, y + 2240, stores);
    run.publish();
    return std::vector<float>(space.begin() + static_cast<std::ptrdiff_t>(offset), space.end());
  };
  for (const Isa isa : usable_isas())
    for (const std::int64_t count : {1, 16, 48, 512, 528, 1024, 1100})
      for (const std::size_t offset : {0u, 1u, 8u, 16u}) {
        std::vector<float> streamed = results(row_functions(isa), count, offset, Stores::streamed);
        const std::vector<float> cached = results(row_functions(isa), count, 0, Stores::cached);
        streamed.resize(cached.size(), 7.0f);
        EXPECT_EQ(streamed, cached) << isa_name(isa) << ' ' << count << " at " << offset;
      }
}

TEST(RowKernels, EveryHalfToBfloat16) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(halves.size());
  convert_to_f32(DType::f16, {reinterpret_cast<const std::uint8_t*>(halves.data()), 2 * halves.size()}, wide);
  for (const Isa isa : usable_isas()) {
    std::vector<std::uint16_t> y(halves.size()), through(halves.size());
    row_functions(isa).halves_to_bf16(halves.data(), 65536, y.data());
    row_functions(isa).to_bf16(wide.data(), 65536, through.data());
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (std::isnan(wide[i])) {
        EXPECT_TRUE((y[i] & 0x7F80u) == 0x7F80u && (y[i] & 0x7Fu) != 0) << isa_name(isa) << ' ' << i;
      } else {
        EXPECT_EQ(y[i], through[i]) << isa_name(isa) << ' ' << i;
      }
    }
  }
}

TEST(RowKernels, ToBfloat16) {
  auto x = random_values(kMost, 1, 1e3f);
  x[3] = std::nanf("");
  x[4] = std::numeric_limits<float>::infinity();
  x[5] = -0.0f;
  x[6] = 1e-42f;
  x[7] = std::numeric_limits<float>::max();
  std::vector<std::int8_t> integers(256);
  for (int i = 0; i < 256; ++i) integers[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i - 128);
  for (const Isa isa : usable_isas()) {
    for (const std::size_t n : {1u, 9u, 31u, 32u, 33u, 1100u}) {
      std::vector<std::uint16_t> y(n + 1, 7);
      row_functions(isa).to_bf16(x.data(), static_cast<std::int64_t>(n), y.data());
      for (std::size_t i = 0; i < n; ++i) {
        if (std::isnan(x[i]))
          EXPECT_TRUE(std::isnan(bf16_to_f32(y[i])));
        else
          EXPECT_EQ(y[i], f32_to_bf16(x[i])) << isa_name(isa) << ' ' << i;
      }
      EXPECT_EQ(y.back(), 7);
    }
    std::vector<std::uint16_t> y(256);
    row_functions(isa).integers_to_bf16(integers.data(), 256, y.data());
    for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(bf16_to_f32(y[i]), static_cast<float>(integers[i]));
  }
}

TEST(RowKernels, FiniteSeesEveryPlace) {
  for (const Isa isa : usable_isas())
    for (std::size_t n = 1; n <= 67; ++n) {
      std::vector<float> x(n, std::numeric_limits<float>::max());
      EXPECT_TRUE(row_functions(isa).finite(x.data(), static_cast<std::int64_t>(n)));
      for (std::size_t i = 0; i < n; ++i)
        for (const float bad : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
          const float kept = x[i];
          x[i] = bad;
          EXPECT_FALSE(row_functions(isa).finite(x.data(), static_cast<std::int64_t>(n))) << isa_name(isa) << ' ' << i << " of " << n;
          x[i] = kept;
        }
    }
}

}  // namespace
}  // namespace tritium::cpu
