#include "base/torch_generator.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace tritium {
namespace {

using Floats = std::vector<float>;

Floats draw(TorchGenerator& generator, std::size_t count) {
  Floats out(count);
  generator.normal(out);
  return out;
}

Floats draw_from(std::uint64_t seed, std::size_t count, TorchGenerator::Variant variant = TorchGenerator::Variant::simd) {
  TorchGenerator generator(seed, variant);
  return draw(generator, count);
}

TEST(TorchGenerator, OnlyTheLow32BitsOfTheSeedCount) {
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 32;
  EXPECT_EQ(draw_from(7, 100), draw_from(7 + kHigh, 100));
  EXPECT_EQ(draw_from(0, 100), draw_from(kHigh, 100));
  EXPECT_NE(draw_from(7, 100), draw_from(8, 100));
  TorchGenerator largest(~std::uint64_t{0}), same(0xFFFFFFFFu);
  EXPECT_EQ(largest.next_word(), same.next_word());
}

TEST(TorchGenerator, SmallDrawsShareACachedValueAcrossCalls) {
  TorchGenerator parts(3);
  Floats joined;
  for (const std::size_t count : {1, 3, 2, 9}) {
    const Floats part = draw(parts, count);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(joined, draw_from(3, 15));
}

TEST(TorchGenerator, ALargeDrawLeavesTheCachedValueForTheNextSmallOne) {
  TorchGenerator generator(3);
  const Floats first = draw(generator, 5);  // three pairs: the sixth value is kept
  draw(generator, 16);
  const Floats last = draw(generator, 1);
  EXPECT_EQ(last[0], draw_from(3, 6)[5]);
}

TEST(TorchGenerator, AnEmptyDrawChangesNothing) {
  TorchGenerator generator(3);
  draw(generator, 0);
  EXPECT_EQ(draw(generator, 20), draw_from(3, 20));
}

// A ragged tail redraws the last 16 values and therefore changes finished ones; a whole number of blocks is a prefix of a longer draw.
TEST(TorchGenerator, BlocksAreIndependentExceptForARaggedTail) {
  const Floats whole = draw_from(11, 64), shorter = draw_from(11, 32), ragged = draw_from(11, 40);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), whole.begin()));
  EXPECT_TRUE(std::equal(ragged.begin(), ragged.begin() + 24, whole.begin()));
  EXPECT_FALSE(std::equal(ragged.begin() + 24, ragged.begin() + 32, whole.begin() + 24));
}

TEST(TorchGenerator, VariantsDifferOnlyInTheLastBits) {
  const Floats simd = draw_from(5, 100'000), scalar = draw_from(5, 100'000, TorchGenerator::Variant::scalar);
  float worst = 0;
  for (std::size_t i = 0; i < simd.size(); ++i) worst = std::max(worst, std::abs(simd[i] - scalar[i]));
  EXPECT_GT(worst, 0.0f);
  EXPECT_LT(worst, 4e-6f);
}

TEST(TorchGenerator, ValuesAreFiniteAndStandardNormal) {
  const Floats values = draw_from(1, 1'000'000);
  EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }));
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / 1e6;
  const double square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0) / 1e6;
  EXPECT_NEAR(mean, 0.0, 5e-3);
  EXPECT_NEAR(square, 1.0, 1e-2);
}

TEST(TorchGenerator, BFloat16DrawsHaveFewRadiiAndNoLargeValues) {
  Floats values(100'000);
  TorchGenerator generator(1);
  generator.normal_bf16(values);
  float largest = 0;
  for (const float v : values) largest = std::max(largest, std::abs(v));
  EXPECT_LE(largest, 3.34f);
  EXPECT_GT(largest, 3.0f);
}

TEST(TorchGenerator, ZerosArePositive) {
  Floats values(100'000);  // one radius in 256 is zero
  TorchGenerator generator(1);
  generator.normal_bf16(values);
  EXPECT_GT(std::count(values.begin(), values.end(), 0.0f), 0);
  EXPECT_TRUE(std::none_of(values.begin(), values.end(), [](float v) { return v == 0 && std::signbit(v); }));
}

TEST(TorchGenerator, UniformsAreBelowOne) {
  TorchGenerator generator(9);
  for (int i = 0; i < 10'000; ++i) {
    const float u = generator.uniform();
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
  }
}

}  // namespace
}  // namespace tritium
