// cpu::Attention on every instruction set of the machine, in both element types, against double-precision loops.
#include "kernels/cpu/attention.h"

#include "ops/support.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

namespace tritium::cpu {
namespace {

using namespace ops_test;

struct Variant {
  Isa isa;
  AttentionType type;
};

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const Isa isa : usable_isas())
    for (const AttentionType type : {AttentionType::f32, AttentionType::bf16})
      if (attention_available(isa, type)) out.push_back({isa, type});
  return out;
}

std::string name(const Variant& v, const Attention::Shape& s) {
  return std::string(isa_name(v.isa)) + (v.type == AttentionType::bf16 ? " bf16" : " f32") + ", head_dim " + std::to_string(s.head_dim) +
         ", heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + ", rows " + std::to_string(s.rows) + ", keys " +
         std::to_string(s.keys) + (s.causal ? ", causal" : "");
}

struct Problem {
  explicit Problem(const Attention::Shape& s, float qk_scale = 1.0f)
      : shape(s),
        q(random_values(static_cast<std::size_t>(s.head_dim * s.heads * s.rows), 1, qk_scale)),
        k(random_values(static_cast<std::size_t>(s.head_dim * s.kv_heads * s.keys), 2, qk_scale)),
        v(random_values(static_cast<std::size_t>(s.head_dim * s.kv_heads * s.keys), 3)) {
    shape.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.head_dim)));
  }

  [[nodiscard]] std::vector<float> run(const Variant& variant, int threads = 1) const {
    const Attention attention(shape, variant.type, variant.isa);
    std::vector<std::uint8_t> packed(attention.packed_bytes(), 0xFF);
    std::vector<float> y(q.size(), std::nanf(""));
    const auto view = [this](const std::vector<float>& values, std::int64_t heads) {
      return Attention::View{values.data(), shape.head_dim, heads * shape.head_dim};
    };
    const auto on_all = [&](auto work) {
      std::vector<std::jthread> workers;
      for (int t = 0; t < threads; ++t) workers.emplace_back([&, t] { work(t); });
    };
    on_all([&](int t) { attention.pack(t, threads, view(k, shape.kv_heads), view(v, shape.kv_heads), packed.data()); });
    on_all([&](int t) { attention.compute(t, threads, view(q, shape.heads), packed.data(), y.data()); });
    return y;
  }

  // Of the values as the products see them.
  [[nodiscard]] std::vector<double> expected(AttentionType type) const {
    const auto seen_by_products = [type](const std::vector<float>& x) { return type == AttentionType::bf16 ? rounded_to_bf16(x) : x; };
    const std::vector<float> qs = seen_by_products(q), ks = seen_by_products(k), vs = seen_by_products(v);
    std::vector<double> out(q.size(), 0.0);
    const auto at = [](const std::vector<float>& x, std::int64_t i) { return static_cast<double>(x[static_cast<std::size_t>(i)]); };
    for (std::int64_t row = 0; row < shape.rows; ++row)
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        const std::int64_t kv_head = head / (shape.heads / shape.kv_heads), first = (row * shape.heads + head) * shape.head_dim;
        std::vector<double> weights(static_cast<std::size_t>(shape.causal ? row + 1 : shape.keys));
        for (std::size_t key = 0; key < weights.size(); ++key)
          for (std::int64_t d = 0; d < shape.head_dim; ++d)
            weights[key] += static_cast<double>(shape.scale) * at(qs, first + d) *
                            at(ks, (static_cast<std::int64_t>(key) * shape.kv_heads + kv_head) * shape.head_dim + d);
        const double top = *std::max_element(weights.begin(), weights.end());
        double total = 0;
        for (double& w : weights) total += w = std::exp(w - top);
        for (std::size_t key = 0; key < weights.size(); ++key)
          for (std::int64_t d = 0; d < shape.head_dim; ++d)
            out[static_cast<std::size_t>(first + d)] +=
                weights[key] / total * at(vs, (static_cast<std::int64_t>(key) * shape.kv_heads + kv_head) * shape.head_dim + d);
      }
    return out;
  }

  Attention::Shape shape;
  std::vector<float> q, k, v;
};

// float32: rounding of the sums. bfloat16: each weight is off by up to 2^-9 of itself, and so the mean of values within ±1 by up to
// 2·w·(1-w)·2^-8 where two keys share all weight.
double tolerance(AttentionType type) { return type == AttentionType::bf16 ? 2.5e-3 : 2e-6; }

void expect_correct(const Attention::Shape& shape) {
  const Problem problem(shape);
  for (const Variant& variant : variants())
    EXPECT_LE(absolute_error(problem.run(variant), problem.expected(variant.type)), tolerance(variant.type)) << name(variant, shape);
}

TEST(AttentionKernel, EveryHeadSizeUpTo144) {
  for (std::int64_t head_dim = 1; head_dim <= 144; head_dim += head_dim < 20 ? 1 : 11) expect_correct({head_dim, 2, 1, 19, 37});
  expect_correct({128, 1, 1, 19, 37});
}

TEST(AttentionKernel, EveryNumberOfKeysAroundPanelsAndBlocks) {
  for (std::int64_t keys = 1; keys <= 70; ++keys) expect_correct({16, 1, 1, 3, keys});
  for (const std::int64_t keys : {255, 256, 257, 258, 287, 288, 289, 511, 512, 513, 1025}) expect_correct({40, 1, 1, 3, keys});
}

TEST(AttentionKernel, EveryNumberOfRowsAroundTilesAndBlocks) {
  for (std::int64_t rows = 1; rows <= 30; ++rows) expect_correct({16, 1, 1, rows, 33});
  for (const std::int64_t rows : {107, 108, 109, 111, 112, 113, 223, 224, 225, 300}) expect_correct({16, 2, 2, rows, 33});
}

TEST(AttentionKernel, C13_Causal) {
  for (std::int64_t rows = 1; rows <= 40; ++rows) expect_correct({16, 4, 2, rows, rows, 1, true});
  for (const std::int64_t rows : {111, 112, 113, 255, 256, 257, 258, 400, 513, 600}) expect_correct({32, 2, 1, rows, rows, 1, true});
}

// Scores of up to 500·500·128, far above the range of half precision: one key is far ahead, and the result is its value.
TEST(AttentionKernel, C2_QueryAndKeyEntriesUpTo500) {
  for (const bool causal : {false, true}) {
    const Problem problem({128, 2, 2, 300, 300, 1, causal}, 500.0f);
    for (const Variant& variant : variants())
      EXPECT_LE(absolute_error(problem.run(variant), problem.expected(variant.type)), 1e-3) << name(variant, problem.shape);
  }
}

// One outlier feature of 500 in all queries and another one in all keys: large scores whose differences are ordinary.
TEST(AttentionKernel, C2_OutlierFeaturesOf500) {
  Problem problem({128, 2, 2, 300, 300});
  for (std::size_t i = 0; i < problem.q.size(); i += 128) problem.q[i] = problem.k[i + 77] = 500.0f;
  for (const Variant& variant : variants())
    EXPECT_LE(absolute_error(problem.run(variant), problem.expected(variant.type)), variant.type == AttentionType::f32 ? 1e-3 : 2.5e-3)
        << name(variant, problem.shape);
}

// Later blocks of keys with ever larger scores: the sums so far must follow.
TEST(AttentionKernel, ScoresThatGrowFromBlockToBlock) {
  Problem problem({64, 1, 1, 20, 1100});
  for (std::size_t key = 0; key < 1100; ++key)
    for (std::size_t d = 0; d < 64; ++d) problem.k[key * 64 + d] *= static_cast<float>(key) / 50.0f;
  for (const Variant& variant : variants())
    EXPECT_LE(absolute_error(problem.run(variant), problem.expected(variant.type)), 2 * tolerance(variant.type))
        << name(variant, problem.shape);
}

TEST(AttentionKernel, ZeroQueriesGiveTheMeanOfTheValues) {
  Problem problem({32, 2, 1, 15, 300});
  std::fill(problem.q.begin(), problem.q.end(), 0.0f);
  for (const Variant& variant : variants())
    EXPECT_LE(absolute_error(problem.run(variant), problem.expected(variant.type)), 1e-6) << name(variant, problem.shape);
}

// What is not finite must be seen by those who look at the result.
TEST(AttentionKernel, C1_NotANumberAndInfinityAreNotSwallowed) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
    for (const int where : {0, 1, 2}) {
      Problem problem({32, 1, 1, 20, 300});
      (where == 0 ? problem.q : where == 1 ? problem.k : problem.v)[5 * 32 + 3] = bad;
      for (const Variant& variant : variants()) {
        const std::vector<float> y = problem.run(variant);
        const bool seen = std::any_of(y.begin(), y.end(), [](float value) { return !std::isfinite(value); });
        // A key at minus infinity for some queries is one without weight: what is left of it is for those at plus infinity.
        EXPECT_TRUE(seen) << name(variant, problem.shape) << ' ' << static_cast<double>(bad) << " in operand " << where;
      }
    }
}

TEST(AttentionKernel, ResultDoesNotDependOnTheNumberOfThreads) {
  for (const bool causal : {false, true}) {
    const Problem problem({40, 6, 2, 270, 270, 1, causal});
    for (const Variant& variant : variants()) {
      const std::vector<float> one = problem.run(variant);
      for (const int threads : {2, 3, 7, 40})
        EXPECT_EQ(problem.run(variant, threads), one) << name(variant, problem.shape) << ' ' << threads;
    }
  }
}

}  // namespace
}  // namespace tritium::cpu
