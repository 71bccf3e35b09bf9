// Rotary embedding, partial and full, against double-precision loops.
#include "ops/rope.h"

#include "ops/support.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

namespace tritium::ops {
namespace {

using namespace ops_test;

class RopeTest : public EveryPath {
 protected:
  void expect_correct(std::int64_t head_dim, std::int64_t pairs, std::int64_t heads, std::int64_t rows, float largest_angle) const {
    const std::vector<float> x = random_values(static_cast<std::size_t>(head_dim * heads * rows), 1);
    const std::vector<float> angles = random_values(static_cast<std::size_t>(rows * pairs), 2, largest_angle);
    const auto y = evaluate(device(), [&](Graph& g) {
      return rotate(g, g.input("x", x, {head_dim, heads, rows}), rotary_table(g, angles, pairs));
    });
    std::vector<double> expected = widened(x);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t p = 0; p < pairs; ++p) {
          const double angle = static_cast<double>(angles[static_cast<std::size_t>(r * pairs + p)]);
          const auto a = static_cast<std::size_t>((r * heads + h) * head_dim + p), b = a + static_cast<std::size_t>(pairs);
          const double rotated = expected[a] * std::cos(angle) - expected[b] * std::sin(angle);
          expected[b] = expected[b] * std::cos(angle) + expected[a] * std::sin(angle);
          expected[a] = rotated;
        }
    EXPECT_LE(absolute_error(y, expected), 4e-7) << head_dim << ' ' << pairs << ' ' << heads << ' ' << rows;
  }
};

TEST_P(RopeTest, FullRotation) {
  for (const std::int64_t head_dim : {2, 16, 64, 128})
    for (const std::int64_t heads : {1, 3})
      for (const std::int64_t rows : {1, 2, 63, 64, 65}) expect_correct(head_dim, head_dim / 2, heads, rows, 3.0f);
}

TEST_P(RopeTest, PartialRotationLeavesTheRestAlone) {
  for (const auto& [head_dim, pairs] : {std::pair{3, 1}, std::pair{16, 6}, std::pair{64, 24}, std::pair{128, 63}, std::pair{17, 8}})
    for (const std::int64_t rows : {1, 5, 64}) expect_correct(head_dim, pairs, 2, rows, 3.0f);
}

TEST_P(RopeTest, LargeAnglesKeepTheirAccuracy) { expect_correct(128, 64, 2, 40, 2e5f); }

// Queries are a slice of a joint projection: [head_dim, heads, rows] with gaps between the rows.
TEST_P(RopeTest, InputMayBeAView) {
  const std::int64_t head_dim = 16, heads = 2, rows = 7, pairs = 8;
  const std::vector<float> all = random_values(static_cast<std::size_t>(3 * head_dim * heads * rows), 1);
  const std::vector<float> angles = random_values(static_cast<std::size_t>(rows * pairs), 2, 3.0f);
  std::vector<float> x;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto first = all.begin() + (3 * r + 1) * head_dim * heads;
    x.insert(x.end(), first, first + head_dim * heads);
  }
  const auto from_view = evaluate(device(), [&](Graph& g) {
    ggml_tensor* source = g.input("x", all, {head_dim, 3 * heads, rows});
    ggml_tensor* view = ggml_view_3d(g.context(), source, head_dim, heads, rows, source->nb[1], source->nb[2], heads * source->nb[1]);
    return rotate(g, view, rotary_table(g, angles, pairs));
  });
  const auto from_copy = evaluate(device(), [&](Graph& g) {
    return rotate(g, g.input("x", x, {head_dim, heads, rows}), rotary_table(g, angles, pairs));
  });
  EXPECT_EQ(from_view, from_copy);
}

// Norm and rotation in one, of a slice of a joint projection, against both one after the other in doubles.
TEST_P(RopeTest, NormalisedHeads) {
  constexpr float kEps = 1e-5f;
  for (const auto& [head_dim, pairs] :
       {std::pair{2, 1}, std::pair{17, 8}, std::pair{40, 20}, std::pair{64, 24}, std::pair{128, 48}, std::pair{128, 0}})
    for (const bool weighted : {true, false})
      for (const std::int64_t rows : {1, 7, 33}) {
        const std::int64_t heads = 3;
        const std::vector<float> all = random_values(static_cast<std::size_t>(3 * head_dim * heads * rows), 1, 50.0f);
        const std::vector<float> angles = random_values(static_cast<std::size_t>(rows * std::max(pairs, 1)), 2, 3.0f);
        const std::vector<float> w = random_values(static_cast<std::size_t>(head_dim), 3);
        Weights weights(device());
        ggml_tensor* weight = weighted ? weights.add(w, {head_dim}) : nullptr;
        const auto y = evaluate(device(), [&](Graph& g) {
          ggml_tensor* source = g.input("x", all, {head_dim, 3 * heads, rows});
          ggml_tensor* view = ggml_view_3d(g.context(), source, head_dim, heads, rows, source->nb[1], source->nb[2], heads * source->nb[1]);
          if (pairs == 0) return normalised_heads(g, view, weight, kEps, nullptr);
          const RotaryTable table = rotary_table(g, angles, pairs);
          return normalised_heads(g, view, weight, kEps, &table);
        });
        std::vector<double> expected(static_cast<std::size_t>(head_dim * heads * rows));
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t h = 0; h < heads; ++h) {
            const float* x = all.data() + ((3 * r + 1) * heads + h) * head_dim;
            double* out = expected.data() + (r * heads + h) * head_dim;
            double sum = 0;
            for (std::int64_t i = 0; i < head_dim; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
            for (std::int64_t i = 0; i < head_dim; ++i)
              out[i] = static_cast<double>(x[i]) / std::sqrt(sum / static_cast<double>(head_dim) + static_cast<double>(kEps)) *
                       (weighted ? static_cast<double>(w[static_cast<std::size_t>(i)]) : 1.0);
            for (std::int64_t p = 0; p < pairs; ++p) {
              const double angle = static_cast<double>(angles[static_cast<std::size_t>(r * pairs + p)]), a = out[p], b = out[p + pairs];
              out[p] = a * std::cos(angle) - b * std::sin(angle);
              out[p + pairs] = b * std::cos(angle) + a * std::sin(angle);
            }
          }
        EXPECT_LE(absolute_error(y, expected), 2e-6) << head_dim << ' ' << pairs << ' ' << rows;
      }
}

INSTANTIATE_TEST_SUITE_P(Paths, RopeTest, every_path(), path_name);

}  // namespace
}  // namespace tritium::ops
