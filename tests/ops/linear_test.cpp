// ops::linear, ops::matmul and ops::silu_gate against double-precision loops.
#include "ops/linear.h"

#include "kernels/cpu/matmul.h"
#include "ops/rows.h"
#include "ops/support.h"

#include <gtest/gtest.h>
#include <cmath>
#include <cstdio>

namespace tritium::ops {
namespace {

using namespace ops_test;

double tolerance(std::int64_t k) { return 2.5e-7 * std::sqrt(static_cast<double>(k) + 16.0); }

// y[n, m] = sum of w[k, n]·x[k, m] + bias[n] in doubles.
Expected product(std::span<const float> w, std::span<const float> x, const float* bias, std::int64_t n, std::int64_t m, std::int64_t k) {
  Expected out(static_cast<std::size_t>(n * m));
  for (std::int64_t row = 0; row < m; ++row)
    for (std::int64_t column = 0; column < n; ++column) {
      const auto i = static_cast<std::size_t>(row * n + column);
      if (bias != nullptr) out.add(i, static_cast<double>(bias[column]));
      for (std::int64_t j = 0; j < k; ++j)
        out.add(i, static_cast<double>(w[static_cast<std::size_t>(column * k + j)]) *
                       static_cast<double>(x[static_cast<std::size_t>(row * k + j)]));
    }
  return out;
}

class LinearTest : public EveryPath {
 protected:
  // Other devices may leave the input of bfloat16 matrices in float32, which is half a unit of its last place away at most.
  [[nodiscard]] double rounding(ggml_type type) const { return !on_cpu() && type == GGML_TYPE_BF16 ? 0x1p-8 : 0; }
  // What reaches the product of x: kernels for machines without products of bfloat16 do not round it.
  [[nodiscard]] std::vector<float> seen(const std::vector<float>& x, ggml_type type) const {
    const bool wide = device().fast_kernels() && !cpu::fast_bf16();
    return type == GGML_TYPE_BF16 && !wide ? rounded_to_bf16(x) : x;
  }
  // `x_scale` up to the largest residual values seen.
  void expect_correct(std::int64_t in, std::int64_t out, std::int64_t rows, ggml_type type, bool with_bias, float x_scale = 1.0f) const {
    const std::vector<float> x = random_values(static_cast<std::size_t>(in * rows), 1, x_scale);
    std::vector<float> w = random_values(static_cast<std::size_t>(in * out), 2);
    if (type == GGML_TYPE_BF16) w = rounded_to_bf16(std::move(w));
    const std::vector<float> bias = random_values(static_cast<std::size_t>(out), 3);
    Weights weights(device());
    const Linear layer{weights.add(w, {in, out}, type), with_bias ? weights.add(bias, {out}) : nullptr};
    const auto y = evaluate(device(), [&](Graph& graph) { return linear(graph, layer, graph.input("x", x, {in, rows})); });
    const Expected expected = product(w, seen(x, type), with_bias ? bias.data() : nullptr, out, rows, in);
    EXPECT_LE(scaled_error(y, expected), tolerance(in) + rounding(type))
        << in << "->" << out << ", " << rows << " rows, " << ggml_type_name(type);
  }
};

TEST_P(LinearTest, ShapesTypesAndBias) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_BF16})
    for (const bool bias : {false, true}) {
      for (const std::int64_t in : {1, 2, 16, 33, 64, 130})
        for (const std::int64_t out : {1, 3, 16, 65})
          for (const std::int64_t rows : {1, 2, 7, 64, 65}) expect_correct(in, out, rows, type, bias);
      expect_correct(511, 513, 17, type, bias);
      expect_correct(96, 1025, 70, type, bias);
      expect_correct(64, 48, 1025, type, bias);
    }
}

TEST_P(LinearTest, FurtherDimensionsCountAsRows) {
  const std::int64_t in = 24, out = 10;
  const std::vector<float> x = random_values(static_cast<std::size_t>(in * 3 * 5), 1),
                           w = random_values(static_cast<std::size_t>(in * out), 2);
  Weights weights(device());
  const Linear layer{weights.add(w, {in, out}), nullptr};
  const auto y = evaluate(device(), [&](Graph& graph) {
    ggml_tensor* result = linear(graph, layer, graph.input("x", x, {in, 3, 5}));
    EXPECT_EQ(result->ne[0], out);
    EXPECT_EQ(result->ne[1], 3);
    EXPECT_EQ(result->ne[2], 5);
    return result;
  });
  EXPECT_LE(scaled_error(y, product(w, x, nullptr, out, 15, in)), tolerance(in));
}

// A slice of the features, as attention projections take it: rows are not adjacent in memory.
TEST_P(LinearTest, InputMayBeAView) {
  const std::int64_t in = 20, out = 9, rows = 11, whole = 50, first = 13;
  const std::vector<float> all = random_values(static_cast<std::size_t>(whole * rows), 1),
                           w = random_values(static_cast<std::size_t>(in * out), 2);
  std::vector<float> x;
  for (std::int64_t r = 0; r < rows; ++r) x.insert(x.end(), all.begin() + r * whole + first, all.begin() + r * whole + first + in);
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_BF16}) {
    const std::vector<float> values = type == GGML_TYPE_BF16 ? rounded_to_bf16(w) : w;
    Weights weights(device());
    const Linear layer{weights.add(values, {in, out}, type), nullptr};
    const auto y = evaluate(device(), [&](Graph& graph) {
      ggml_tensor* source = graph.input("x", all, {whole, rows});
      return linear(graph, layer, ggml_view_2d(graph.context(), source, in, rows, source->nb[1], first * sizeof(float)));
    });
    EXPECT_LE(scaled_error(y, product(values, seen(x, type), nullptr, out, rows, in)), tolerance(in) + rounding(type));
  }
}

TEST_P(LinearTest, C1_LargeResidualValuesStayFiniteAndAccurate) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_BF16}) expect_correct(192, 96, 33, type, true, 1e7f);
}

TEST_P(LinearTest, ResultDoesNotDependOnTheNumberOfThreads) {
  const std::int64_t in = 100, out = 300, rows = 77;
  const std::vector<float> x = random_values(static_cast<std::size_t>(in * rows), 1),
                           w = random_bf16_values(static_cast<std::size_t>(in * out), 2);
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_BF16}) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      Device& each = ops_test::device(GetParam(), threads);
      Weights weights(each);
      const Linear layer{weights.add(w, {in, out}, type), nullptr};
      const auto y = evaluate(each, [&](Graph& graph) { return linear(graph, layer, graph.input("x", x, {in, rows})); });
      if (first.empty()) first = y;
      EXPECT_EQ(y, first) << threads << " threads, " << ggml_type_name(type);
    }
  }
}

TEST_P(LinearTest, MatmulOfActivations) {
  for (const std::int64_t k : {1, 7, 24, 77, 513})
    for (const std::int64_t n : {1, 5, 63, 64, 65})
      for (const std::int64_t m : {1, 2, 16, 33}) {
        const std::vector<float> a = random_values(static_cast<std::size_t>(k * n), 4),
                                 b = random_values(static_cast<std::size_t>(k * m), 5);
        const auto y = evaluate(device(), [&](Graph& graph) {
          return matmul(graph, graph.input("a", a, {k, n}), graph.input("b", b, {k, m}));
        });
        EXPECT_LE(scaled_error(y, product(a, b, nullptr, n, m, k)), tolerance(k)) << k << ' ' << n << ' ' << m;
      }
}

TEST_P(LinearTest, SlicesOfRowsGiveTheSameResult) {
  const std::int64_t in = 40, out = 30, rows = 53;
  const std::vector<float> x = random_values(static_cast<std::size_t>(in * rows), 1),
                           w = random_values(static_cast<std::size_t>(in * out), 2);
  Weights weights(device());
  const Linear layer{weights.add(w, {in, out}), nullptr};
  for (const std::int64_t max_rows : {1, 7, 52, 53, 54}) {
    const auto y = evaluate(device(), [&](Graph& graph) {
      return by_rows(graph, graph.input("x", x, {in, rows}), max_rows, [&](ggml_tensor* part) { return linear(graph, layer, part); });
    });
    EXPECT_LE(scaled_error(y, product(w, x, nullptr, out, rows, in)), tolerance(in)) << max_rows;
  }
}

TEST_P(LinearTest, SiluGate) {
  for (const std::int64_t n : {1, 3, 16, 65, 200})
    for (const std::int64_t rows : {1, 2, 7}) {
      const std::vector<float> x = random_values(static_cast<std::size_t>(2 * n * rows), 6, 30.0f);
      const auto y = evaluate(device(), [&](Graph& graph) { return silu_gate(graph, graph.input("x", x, {2 * n, rows})); });
      Expected expected(static_cast<std::size_t>(n * rows));
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t i = 0; i < n; ++i) {
          const double gate = static_cast<double>(x[static_cast<std::size_t>(r * 2 * n + i)]);
          expected.add(static_cast<std::size_t>(r * n + i),
                       gate / (1.0 + std::exp(-gate)) * static_cast<double>(x[static_cast<std::size_t>(r * 2 * n + n + i)]));
        }
      EXPECT_LE(scaled_error(y, expected), on_cpu() ? 1e-6 : 3e-6) << n << ' ' << rows;
    }
}

// The matrices of quantized models on devices that multiply ggml's blocks themselves, against their decoded values: decoded in float32,
// or multiplied with an input in blocks of 8 bits.
TEST_P(LinearTest, BlocksOfEveryType) {
  if (on_cpu()) return;
  const std::int64_t in = 512, out = 96;
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q4_K, GGML_TYPE_NVFP4,
                               GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K}) {
    const std::vector<float> values = random_values(static_cast<std::size_t>(in * out), 2);
    std::vector<std::uint8_t> blocks(ggml_row_size(type, in) * static_cast<std::size_t>(out));
    ggml_quantize_chunk(type, values.data(), blocks.data(), 0, out, in, nullptr);
    std::vector<float> decoded(values.size());
    ggml_get_type_traits(type)->to_float(blocks.data(), decoded.data(), in * out);
    TensorPool pool(1);
    ggml_tensor* weight = pool.add("blocks", type, {in, out});
    ASSERT_TRUE(pool.allocate(device(), "the test weights").ok());
    ggml_backend_tensor_set(weight, blocks.data(), 0, blocks.size());
    for (const std::int64_t rows : {1, 65})
      for (const float scale : {1.0f, 1e6f}) {
        const std::vector<float> x = random_values(static_cast<std::size_t>(in * rows), 1, scale);
        std::fflush(stdout);
        const auto y = evaluate(device(), [&](Graph& graph) { return linear(graph, {weight, nullptr}, graph.input("x", x, {in, rows})); });
        const double error = scaled_error(y, product(decoded, x, nullptr, out, rows, in));
        if (scale == 1.0f) std::printf("%s, %d rows: error %.2g\n", ggml_type_name(type), static_cast<int>(rows), error);
        EXPECT_LE(error, 2e-3) << ggml_type_name(type) << ", " << rows << " rows, values up to " << static_cast<double>(scale);
      }
  }
  for (const UnsupportedOp& op : device().fallbacks()) ADD_FAILURE() << op.operation;
}

INSTANTIATE_TEST_SUITE_P(Paths, LinearTest, every_path(), path_name);

}  // namespace
}  // namespace tritium::ops
