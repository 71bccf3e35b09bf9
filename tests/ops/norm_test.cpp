// Normalisations and the per-row modulation against double-precision loops.
#include "ops/norm.h"

#include "ops/linear.h"
#include "ops/support.h"

#include <gtest/gtest.h>
#include <cmath>

namespace tritium::ops {
namespace {

using namespace ops_test;

constexpr float kEps = 1e-5f;

std::vector<double> rms_norm_reference(std::span<const float> x, const float* weight, std::int64_t features) {
  std::vector<double> out = widened(x);
  for (std::size_t row = 0; row < out.size(); row += static_cast<std::size_t>(features)) {
    double sum = 0;
    for (std::int64_t i = 0; i < features; ++i) sum += out[row + static_cast<std::size_t>(i)] * out[row + static_cast<std::size_t>(i)];
    const double factor = 1.0 / std::sqrt(sum / static_cast<double>(features) + static_cast<double>(kEps));
    for (std::int64_t i = 0; i < features; ++i)
      out[row + static_cast<std::size_t>(i)] *= factor * (weight != nullptr ? static_cast<double>(weight[i]) : 1.0);
  }
  return out;
}

std::vector<double> layer_norm_reference(std::span<const float> x, const float* weight, const float* bias, std::int64_t features) {
  std::vector<double> out = widened(x);
  for (std::size_t row = 0; row < out.size(); row += static_cast<std::size_t>(features)) {
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < features; ++i) mean += out[row + static_cast<std::size_t>(i)] / static_cast<double>(features);
    for (std::int64_t i = 0; i < features; ++i)
      variance += std::pow(out[row + static_cast<std::size_t>(i)] - mean, 2) / static_cast<double>(features);
    for (std::int64_t i = 0; i < features; ++i) {
      double& v = out[row + static_cast<std::size_t>(i)];
      v = (v - mean) / std::sqrt(variance + static_cast<double>(kEps)) * static_cast<double>(weight[i]) + static_cast<double>(bias[i]);
    }
  }
  return out;
}

class NormTest : public EveryPath {};

TEST_P(NormTest, RmsNormWithAndWithoutWeight) {
  for (const std::int64_t features : {1, 2, 5, 16, 31, 64, 128, 513, 2048})
    for (const std::int64_t rows : {1, 2, 7, 65}) {
      const std::vector<float> x = random_values(static_cast<std::size_t>(features * rows), 1, 3.0f);
      const std::vector<float> w = random_values(static_cast<std::size_t>(features), 2);
      Weights weights(device());
      ggml_tensor* weight = weights.add(w, {features});
      const auto plain = evaluate(device(), [&](Graph& g) { return rms_norm(g, g.input("x", x, {features, rows}), nullptr, kEps); });
      EXPECT_LE(absolute_error(plain, rms_norm_reference(x, nullptr, features)), 5e-6) << features << ' ' << rows;
      const auto scaled = evaluate(device(), [&](Graph& g) { return rms_norm(g, g.input("x", x, {features, rows}), weight, kEps); });
      EXPECT_LE(absolute_error(scaled, rms_norm_reference(x, w.data(), features)), 5e-6) << features << ' ' << rows;
    }
}

// Heads normalised one by one, as queries and keys are: [head_dim, heads, rows].
TEST_P(NormTest, RmsNormOverHeads) {
  const std::vector<float> x = random_values(64 * 3 * 5, 1), w = random_values(64, 2);
  Weights weights(device());
  ggml_tensor* weight = weights.add(w, {64});
  const auto y = evaluate(device(), [&](Graph& g) { return rms_norm(g, g.input("x", x, {64, 3, 5}), weight, kEps); });
  EXPECT_LE(absolute_error(y, rms_norm_reference(x, w.data(), 64)), 5e-6);
}

TEST_P(NormTest, RmsNormOfTinyValuesIsGovernedByEps) {
  const std::vector<float> x = random_values(48 * 3, 1, 1e-6f);
  const auto y = evaluate(device(), [&](Graph& g) { return rms_norm(g, g.input("x", x, {48, 3}), nullptr, kEps); });
  EXPECT_LE(absolute_error(y, rms_norm_reference(x, nullptr, 48)), 1e-9);
  const std::vector<float> zeros(48 * 3, 0.0f);
  EXPECT_EQ(evaluate(device(), [&](Graph& g) { return rms_norm(g, g.input("x", zeros, {48, 3}), nullptr, kEps); }), zeros);
}

TEST_P(NormTest, LayerNorm) {
  for (const std::int64_t features : {2, 5, 16, 31, 64, 513, 2048})
    for (const std::int64_t rows : {1, 2, 7, 65}) {
      std::vector<float> x = random_values(static_cast<std::size_t>(features * rows), 1, 3.0f);
      for (float& v : x) v += 1.5f;
      const std::vector<float> w = random_values(static_cast<std::size_t>(features), 2),
                               b = random_values(static_cast<std::size_t>(features), 3);
      Weights weights(device());
      ggml_tensor *weight = weights.add(w, {features}), *bias = weights.add(b, {features});
      const auto y = evaluate(device(), [&](Graph& g) { return layer_norm(g, g.input("x", x, {features, rows}), weight, bias, kEps); });
      EXPECT_LE(absolute_error(y, layer_norm_reference(x, w.data(), b.data(), features)), 1e-5) << features << ' ' << rows;
    }
}

class ModulationTest : public EveryPath {
 protected:
  static constexpr std::int64_t kChunks = 6;
  // Random table and variants for `rows` rows of `features` values.
  void prepare(std::int64_t features, std::int64_t variants, std::int64_t rows, float x_scale) {
    features_ = features;
    x_ = random_values(static_cast<std::size_t>(features * rows), 1, x_scale);
    y_ = random_values(static_cast<std::size_t>(features * rows), 2, x_scale);
    table_ = random_values(static_cast<std::size_t>(features * kChunks * variants), 3);
    variant_.clear();
    for (std::int64_t r = 0; r < rows; ++r) variant_.push_back(static_cast<std::int32_t>((r * 7 + 1) % variants));
  }
  [[nodiscard]] double chunk(std::size_t row, std::size_t feature, int index) const {
    const std::int64_t at = (variant_[row] * kChunks + index) * features_ + static_cast<std::int64_t>(feature);
    return static_cast<double>(table_[static_cast<std::size_t>(at)]);
  }
  // Evaluates `op(graph, x, y, modulation)` and compares with `reference(x, y, row, feature)` added up term by term.
  template <class Op, class Reference>
  void expect_correct(std::int64_t variants, Op&& op, Reference&& reference) const {
    expect_close_to_terms(
        variants, std::forward<Op>(op),
        [&](std::size_t i, std::size_t row, std::size_t feature) {
          return reference(static_cast<double>(x_[i]), static_cast<double>(y_[i]), row, feature);
        },
        2e-7);
  }
  // The same with `terms(index, row, feature)`.
  template <class Op, class Terms>
  void expect_close_to_terms(std::int64_t variants, Op&& op, Terms&& terms, double tolerance) const {
    const auto rows = static_cast<std::int64_t>(variant_.size());
    Weights weights(device());
    ggml_tensor* table = weights.add(table_, {features_, kChunks, variants});
    const auto result = evaluate(device(), [&](Graph& g) {
      const Modulation modulation{table, g.input_i32("variant", variant_)};
      return op(g, g.input("x", x_, {features_, rows}), g.input("y", y_, {features_, rows}), modulation);
    });
    Expected expected(x_.size());
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(features_), feature = i % static_cast<std::size_t>(features_);
      for (const double term : terms(i, row, feature)) expected.add(i, term);
    }
    EXPECT_LE(scaled_error(result, expected), tolerance) << features_ << " features, " << rows << " rows, " << variants << " variants";
  }
  void modulate_and_gate(std::int64_t variants) const {
    expect_correct(
        variants, [](Graph& g, ggml_tensor* x, ggml_tensor*, const Modulation& m) { return modulate(g, x, m, 3, 4); },
        [this](double x, double, std::size_t r, std::size_t f) {
          return std::vector{x, x * chunk(r, f, 4), chunk(r, f, 3)};
        });
    expect_correct(
        variants, [](Graph& g, ggml_tensor* x, ggml_tensor* y, const Modulation& m) { return gated_add(g, x, y, m, 5); },
        [this](double x, double y, std::size_t r, std::size_t f) {
          return std::vector{x, y * chunk(r, f, 5)};
        });
  }

  std::int64_t features_ = 0;
  std::vector<float> x_, y_, table_;
  std::vector<std::int32_t> variant_;
};

TEST_P(ModulationTest, ModulateAndGatedAdd) {
  for (const std::int64_t features : {1, 5, 16, 65, 192})
    for (const std::int64_t variants : {1, 2, 3})
      for (const std::int64_t rows : {1, 2, 63, 64}) {
        prepare(features, variants, rows, 1.0f);
        modulate_and_gate(variants);
      }
}

TEST_P(ModulationTest, C1_LargeResidualValuesStayFiniteAndAccurate) {
  prepare(192, 2, 33, 1e7f);
  modulate_and_gate(2);
}

// The norm and its modulation in one, with and without a weight, up to the largest residual values seen.
TEST_P(ModulationTest, C1_ModulatedRmsNorm) {
  for (const std::int64_t features : {1, 5, 16, 65, 192, 513, 1030})
    for (const float x_scale : {1.0f, 1e6f, 1e-4f}) {
      prepare(features, 3, 9, x_scale);
      std::fill_n(x_.begin(), features, 0.0f);
      const std::vector<float> w = random_values(static_cast<std::size_t>(features), 5);
      Weights weights(device());
      ggml_tensor* weight = weights.add(w, {features});
      for (const bool weighted : {true, false}) {
        const std::vector<double> normed = rms_norm_reference(x_, weighted ? w.data() : nullptr, features);
        expect_close_to_terms(
            3,
            [&](Graph& g, ggml_tensor* x, ggml_tensor*, const Modulation& m) {
              return modulated_rms_norm(g, x, weighted ? weight : nullptr, kEps, m, 0, 1);
            },
            [&](std::size_t i, std::size_t r, std::size_t f) {
              return std::vector{normed[i], normed[i] * chunk(r, f, 1), chunk(r, f, 0)};
            },
            1e-6);
      }
    }
}

// The path of one residual branch, x + gate·W·(rms_norm(x)), with outliers in x that overflow half precision.
TEST_P(ModulationTest, C1_ResidualBranchWithOutliersUpTo1e7) {
  const std::int64_t features = 96, rows = 20;
  prepare(features, 1, rows, 1.0f);
  for (std::size_t i = 0; i < x_.size(); i += 37) x_[i] *= 1e7f;
  const std::vector<float> w = random_values(static_cast<std::size_t>(features * features), 9, 0.1f);
  Weights weights(device());
  const Linear layer{weights.add(w, {features, features}), nullptr};
  ggml_tensor* table = weights.add(table_, {features, kChunks, 1});
  const auto result = evaluate(device(), [&](Graph& g) {
    ggml_tensor* x = g.input("x", x_, {features, rows});
    return gated_add(g, x, linear(g, layer, rms_norm(g, x, nullptr, kEps)), {table, g.input_i32("variant", variant_)}, 2);
  });
  const std::vector<double> normed = rms_norm_reference(x_, nullptr, features);
  Expected expected(x_.size());
  for (std::size_t i = 0; i < x_.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(features), feature = i % static_cast<std::size_t>(features);
    expected.add(i, static_cast<double>(x_[i]));
    for (std::size_t k = 0; k < static_cast<std::size_t>(features); ++k)
      expected.add(i, chunk(row, feature, 2) * normed[row * static_cast<std::size_t>(features) + k] *
                          static_cast<double>(w[feature * static_cast<std::size_t>(features) + k]));
  }
  EXPECT_LE(scaled_error(result, expected), 3e-6);
}

INSTANTIATE_TEST_SUITE_P(Paths, NormTest, every_path(), path_name);
INSTANTIATE_TEST_SUITE_P(Paths, ModulationTest, every_path(), path_name);

}  // namespace
}  // namespace tritium::ops
