// Attention against double-precision loops: masks, grouped heads, head sizes, lengths, large scores, query rows in parts.
#include "ops/attention.h"

#include "ops/support.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

namespace tritium::ops {
namespace {

using namespace ops_test;

struct Shape {
  std::int64_t head_dim, heads, kv_heads, rows, keys;
};

struct Problem {
  explicit Problem(const Shape& s, float qk_scale = 1.0f)
      : shape(s),
        q(random_values(static_cast<std::size_t>(s.head_dim * s.heads * s.rows), 1, qk_scale)),
        k(random_values(static_cast<std::size_t>(s.head_dim * s.kv_heads * s.keys), 2, qk_scale)),
        v(random_values(static_cast<std::size_t>(s.head_dim * s.kv_heads * s.keys), 3)),
        scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.head_dim)))) {}

  [[nodiscard]] std::vector<float> run(Device& device, AttentionMask mask, std::int64_t max_scores = kMaxAttentionScores) const {
    return evaluate(device, [&](Graph& g) {
      return attention(g, g.input("q", q, {shape.head_dim, shape.heads, shape.rows}),
                       g.input("k", k, {shape.head_dim, shape.kv_heads, shape.keys}),
                       g.input("v", v, {shape.head_dim, shape.kv_heads, shape.keys}), scale, mask, max_scores);
    });
  }

  [[nodiscard]] std::vector<double> expected(AttentionMask mask) const {
    std::vector<double> out(q.size(), 0.0);
    for (std::int64_t row = 0; row < shape.rows; ++row)
      for (std::int64_t head = 0; head < shape.heads; ++head)
        expect_row(row, head, mask == AttentionMask::causal ? row + 1 : shape.keys, out);
    return out;
  }

  Shape shape;
  std::vector<float> q, k, v;
  float scale;

 private:
  void expect_row(std::int64_t row, std::int64_t head, std::int64_t seen, std::vector<double>& out) const {
    const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
    const float* query = q.data() + (row * shape.heads + head) * shape.head_dim;
    std::vector<double> weights(static_cast<std::size_t>(seen));
    for (std::int64_t key = 0; key < seen; ++key) {
      const float* other = k.data() + (key * shape.kv_heads + kv_head) * shape.head_dim;
      double sum = 0;
      for (std::int64_t d = 0; d < shape.head_dim; ++d) sum += static_cast<double>(query[d]) * static_cast<double>(other[d]);
      weights[static_cast<std::size_t>(key)] = sum * static_cast<double>(scale);
    }
    const double top = *std::max_element(weights.begin(), weights.end());
    double total = 0;
    for (double& w : weights) total += w = std::exp(w - top);
    double* result = out.data() + (row * shape.heads + head) * shape.head_dim;
    for (std::int64_t key = 0; key < seen; ++key)
      for (std::int64_t d = 0; d < shape.head_dim; ++d)
        result[d] += weights[static_cast<std::size_t>(key)] / total *
                     static_cast<double>(v[static_cast<std::size_t>((key * shape.kv_heads + kv_head) * shape.head_dim + d)]);
  }
};

class AttentionTest : public EveryPath {
 protected:
  void expect_correct(const Shape& s, AttentionMask mask, std::int64_t max_scores = kMaxAttentionScores) const {
    const Problem problem(s);
    EXPECT_LE(absolute_error(problem.run(device(), mask, max_scores), problem.expected(mask)), 2e-6)
        << s.head_dim << "-dim heads " << s.heads << '/' << s.kv_heads << ' ' << s.rows << " rows " << s.keys << " keys";
  }
};

TEST_P(AttentionTest, HeadDimensionsAndGroupedHeads) {
  for (const std::int64_t head_dim : {16, 32, 40, 64, 80, 128})
    for (const auto& [heads, kv_heads] : {std::pair{1, 1}, std::pair{4, 4}, std::pair{6, 2}, std::pair{8, 1}})
      for (const AttentionMask mask : {AttentionMask::none, AttentionMask::causal})
        expect_correct({head_dim, heads, kv_heads, 21, 21}, mask);
}

TEST_P(AttentionTest, RowsAndKeysMayDiffer) {
  for (const auto& [rows, keys] :
       {std::pair{1, 1}, std::pair{1, 77}, std::pair{77, 1}, std::pair{3, 200}, std::pair{200, 3}, std::pair{65, 63}})
    expect_correct({64, 3, 3, rows, keys}, AttentionMask::none);
}

TEST_P(AttentionTest, C13_TextLengthsFrom1To600) {
  for (const std::int64_t rows : {1, 2, 3, 7, 31, 32, 33, 62, 63, 64, 65, 66, 127, 128, 129, 255, 256, 257, 333, 599, 600})
    for (const AttentionMask mask : {AttentionMask::none, AttentionMask::causal}) expect_correct({32, 2, 1, rows, rows}, mask);
}

// Every length, so that none slips between the chosen ones: the last row sees all keys.
TEST_P(AttentionTest, C13_EveryKeyCountUpTo600) {
  for (std::int64_t keys = 1; keys <= 600; ++keys) expect_correct({16, 1, 1, 2, keys}, AttentionMask::none);
}

TEST_P(AttentionTest, QueryRowsInPartsGiveTheSameResult) {
  const Shape s{32, 4, 2, 150, 150};
  const Problem problem(s);
  for (const AttentionMask mask : {AttentionMask::none, AttentionMask::causal}) {
    const std::vector<float> whole = problem.run(device(), mask);
    for (const std::int64_t rows_at_once : {0, 1, 7, 64, 149, 150}) {  // 0: even one row is above the limit
      expect_correct(s, mask, rows_at_once * s.keys * s.heads);
      EXPECT_LE(absolute_error(problem.run(device(), mask, rows_at_once * s.keys * s.heads), widened(whole)), 1e-6) << rows_at_once;
    }
  }
}

// Scores reach 500·500·128: far above the range of half precision. With one key far ahead the result is that key's value.
TEST_P(AttentionTest, C2_QueryAndKeyEntriesUpTo500) {
  for (const AttentionMask mask : {AttentionMask::none, AttentionMask::causal}) {
    const Problem problem({128, 3, 3, 65, 65}, 500.0f);
    EXPECT_LE(absolute_error(problem.run(device(), mask), problem.expected(mask)), 1e-3);
  }
}

// One outlier feature of 500 in all queries and another one in all keys: large scores whose differences are ordinary.
TEST_P(AttentionTest, C2_OutlierFeaturesOf500) {
  Problem problem({128, 2, 2, 65, 65});
  for (std::size_t i = 0; i < problem.q.size(); i += 128) problem.q[i] = problem.k[i + 77] = 500.0f;
  for (const AttentionMask mask : {AttentionMask::none, AttentionMask::causal})
    EXPECT_LE(absolute_error(problem.run(device(), mask), problem.expected(mask)), 1e-3);
}

TEST_P(AttentionTest, ResultDoesNotDependOnTheNumberOfThreads) {
  const Problem problem({64, 4, 2, 133, 133});
  const std::vector<float> one = problem.run(ops_test::device(GetParam(), 1), AttentionMask::causal);
  for (const int threads : {2, 3}) EXPECT_EQ(problem.run(ops_test::device(GetParam(), threads), AttentionMask::causal), one) << threads;
}

INSTANTIATE_TEST_SUITE_P(Paths, AttentionTest, every_path(), path_name);

}  // namespace
}  // namespace tritium::ops
