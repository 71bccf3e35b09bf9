// Decoders of rows of 4-bit codes against plain loops: exactly the same values.
#include "kernels/cpu/four_bit.h"

#include "ops/support.h"
#include "weights/dtype.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <random>

namespace tritium::cpu {
namespace {

using namespace ops_test;

struct Problem {
  Problem(std::int64_t columns, std::int64_t group, bool low_first, bool integers, bool coded_scales, float scale)
      : table(random_values(16, 1, integers ? 8.0f : 1.0f)),
        scales(random_values(static_cast<std::size_t>(columns / group), 2, scale)),
        scale_table(random_values(256, 3, scale)),
        count(columns) {
    std::mt19937 random(4);
    for (std::int64_t i = 0; i < columns / 2; ++i) codes.push_back(static_cast<std::uint8_t>(random()));
    for (std::int64_t i = 0; i < columns / group; ++i) scale_codes.push_back(static_cast<std::uint8_t>(random()));
    row = {codes.data(),       table.data(), group,   coded_scales ? nullptr : scales.data(), coded_scales ? scale_codes.data() : nullptr,
           scale_table.data(), low_first,    integers};
  }

  [[nodiscard]] float expected(std::int64_t i) const {
    const std::uint8_t byte = codes[static_cast<std::size_t>(i / 2)];
    const bool low = (i % 2 == 0) == row.low_first;
    const auto group = static_cast<std::size_t>(i / row.group);
    const float scale = row.scale_codes != nullptr ? scale_table[scale_codes[group]] : scales[group];
    const float value = table[low ? byte & 15u : byte >> 4] * scale;
    return row.integers ? std::nearbyint(std::clamp(value, -127.0f, 127.0f)) : value;
  }

  std::vector<float> table, scales, scale_table;
  std::vector<std::uint8_t> codes, scale_codes;
  std::int64_t count;
  FourBitRow row;
};

TEST(FourBit, EveryFormExactly) {
  const FourBitFunctions* fast = four_bit_functions();
  if (fast == nullptr) GTEST_SKIP() << "THIS MACHINE HAS NO SUCH DECODERS: rows are decoded by the plain loops";
  for (const std::int64_t group : {16, 32, 64, 256})
    for (const std::int64_t groups : {1, 2, 3, 7})
      for (const bool low_first : {true, false})
        for (const bool coded : {true, false})
          for (const float scale : {1.0f, 30.0f, 1e-3f}) {
            const Problem grid(group * groups, group, low_first, true, coded, scale),
                plain(group * groups, group, low_first, false, coded, scale);
            const auto n = static_cast<std::size_t>(group * groups);
            std::vector<std::int8_t> integers(n + 1, 77);
            std::vector<std::uint16_t> halves(n + 1, 77), of_grid(n + 1, 77);
            fast->to_int8(grid.row, grid.count, integers.data());
            fast->to_bf16(grid.row, grid.count, of_grid.data());
            fast->to_bf16(plain.row, plain.count, halves.data());
            for (std::size_t i = 0; i < n; ++i) {
              const float value = grid.expected(static_cast<std::int64_t>(i));
              ASSERT_EQ(static_cast<float>(integers[i]), value) << group << ' ' << i;
              ASSERT_EQ(bf16_to_f32(of_grid[i]), value) << group << ' ' << i;
              ASSERT_EQ(halves[i], f32_to_bf16(plain.expected(static_cast<std::int64_t>(i)))) << group << ' ' << i;
            }
            EXPECT_EQ(integers.back(), 77);
            EXPECT_EQ(halves.back(), 77);
            EXPECT_EQ(of_grid.back(), 77);
          }
}

}  // namespace
}  // namespace tritium::cpu
