// Tensors of more than 2^31 elements, as the queries, keys and values of 1344x768 with 362 frames are: 21504·109362. Only their last rows
// are used.
#include "base/try.h"
#include "doctor/probe.h"

#include <cmath>

namespace tritium::doctor {
namespace {

constexpr std::int64_t kWidth = 21504, kInner = 7168, kHeads = 56, kHeadDim = 128, kUsed = 40;
constexpr std::int64_t kLongRows = (std::int64_t{1} << 31) / kWidth + 100;
constexpr std::int64_t kFirst = kLongRows - kUsed;
constexpr float kEps = 1e-5f;

// A tensor of which only the last rows hold anything.
Result<ggml_tensor*> long_tensor(Bench& bench, const Values& values) {
  TRITIUM_TRY_ASSIGN(ggml_tensor * tensor, bench.untouched({kWidth, kLongRows}));
  const std::vector<float> rows = values.first(kWidth * kUsed);
  ggml_backend_tensor_set(tensor, rows.data(), static_cast<std::size_t>(kFirst) * tensor->nb[1], rows.size() * sizeof(float));
  return tensor;
}

// Queries, keys or values of the last rows: [head_dim, heads, rows].
ggml_tensor* part(Graph& graph, ggml_tensor* tensor, std::int64_t index) {
  return ggml_view_3d(graph.context(), tensor, kHeadDim, kHeads, kUsed, kHeadDim * sizeof(float), tensor->nb[1],
                      static_cast<std::size_t>(kFirst) * tensor->nb[1] + static_cast<std::size_t>(index * kInner) * sizeof(float));
}

Result<Comparison> check_norm(Bench& bench) {
  const Values values(1, 500);
  TRITIUM_TRY_ASSIGN(ggml_tensor * tensor, long_tensor(bench, values));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) {
    return bench.operations().rms_norm(graph, ggml_cont(graph.context(), part(graph, tensor, 1)), nullptr, kEps);
  }));
  Comparison out;
  for (const std::int64_t row : picked(kUsed, 5))
    for (const std::int64_t head : picked(kHeads, 5)) {
      const float* x = values.at(row * kWidth + kInner + head * kHeadDim);
      Expected square;
      square.add_product(x, x, kHeadDim);
      const double factor = 1 / std::sqrt(square.value / kHeadDim + static_cast<double>(kEps));
      for (std::int64_t d = 0; d < kHeadDim; ++d) {
        const double expected = static_cast<double>(x[d]) * factor;
        out.check(y[static_cast<std::size_t>((row * kHeads + head) * kHeadDim + d)], expected, std::abs(expected), 3e-6);
      }
    }
  return out;
}

Result<Comparison> check_attention(Bench& bench) {
  const Values values(2, 1);
  TRITIUM_TRY_ASSIGN(ggml_tensor * tensor, long_tensor(bench, values));
  const double scale = 1 / std::sqrt(static_cast<double>(kHeadDim));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) {
    return bench.operations().attention(graph, part(graph, tensor, 0), part(graph, tensor, 1), part(graph, tensor, 2),
                                        static_cast<float>(scale), ops::AttentionMask::none, ops::kMaxAttentionScores,
                                        MatrixPrecision::f32);
  }));
  const auto at = [&](std::int64_t row, std::int64_t index, std::int64_t head) {
    return values.at(row * kWidth + index * kInner + head * kHeadDim);
  };
  Comparison out;
  for (const std::int64_t row : picked(kUsed, 3))
    for (const std::int64_t head : picked(kHeads, 3)) {
      std::vector<double> mixed(kHeadDim);
      double total = 0;
      for (std::int64_t key = 0; key < kUsed; ++key) {
        Expected score;
        score.add_product(at(row, 0, head), at(key, 1, head), kHeadDim);
        const double weight = std::exp(score.value * scale);
        total += weight;
        for (std::int64_t d = 0; d < kHeadDim; ++d) mixed[static_cast<std::size_t>(d)] += weight * static_cast<double>(at(key, 2, head)[d]);
      }
      for (std::int64_t d = 0; d < kHeadDim; ++d)
        out.check(y[static_cast<std::size_t>((row * kHeads + head) * kHeadDim + d)], mixed[static_cast<std::size_t>(d)] / total, 1.0, 5e-6);
    }
  return out;
}

// A linear layer from the last rows, and its result copied over their beginning.
Result<Comparison> check_linear(Bench& bench) {
  constexpr std::int64_t kIn = 5376, kOut = 1024;
  const Values values(3), weight(4, 1 / std::sqrt(static_cast<double>(kIn)));
  TRITIUM_TRY_ASSIGN(ggml_tensor * tensor, long_tensor(bench, values));
  ops::Linear layer;
  TRITIUM_TRY_ASSIGN(layer.weight.values, bench.tensor({kIn, kOut}, weight));
  const auto last_rows = [&](Graph& graph, std::int64_t columns) {
    return ggml_view_2d(graph.context(), tensor, columns, kUsed, tensor->nb[1], static_cast<std::size_t>(kFirst) * tensor->nb[1]);
  };
  TRITIUM_TRY(bench.run(
      [&](Graph& graph) {
        ggml_tensor* y = bench.operations().linear(graph, layer, last_rows(graph, kIn));
        graph.effect(ggml_cpy(graph.context(), y, last_rows(graph, kOut)));
        return y;
      },
      [](const ggml_tensor*) {}));
  Comparison out;
  for (const std::int64_t row : picked(kUsed, 3)) {
    const std::vector<float> y = download_part(tensor, (kFirst + row) * kWidth, kOut);
    for (const std::int64_t column : picked(kOut, 61)) {
      Expected expected;
      expected.add_product(values.at(row * kWidth), weight.at(column * kIn), kIn);
      out.check(y[static_cast<std::size_t>(column)], expected, product_tolerance(kIn));
    }
  }
  return out;
}

// A result that is itself that large, every row of it computed.
Result<Comparison> check_large_result(Bench& bench) {
  constexpr std::int64_t kIn = 32;
  const Values values(5), weight(6);
  ops::Linear layer;
  TRITIUM_TRY_ASSIGN(layer.weight.values, bench.tensor({kIn, kWidth}, weight));
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({kIn, kLongRows}, values));
  Comparison out;
  TRITIUM_TRY(bench.run([&](Graph& graph) { return bench.operations().linear(graph, layer, x); },
                        [&](const ggml_tensor* y) {
                          for (const std::int64_t row : picked(kLongRows, 41)) {
                            const std::vector<float> got = download_part(y, row * kWidth, kWidth);
                            for (const std::int64_t column : picked(kWidth, 61)) {
                              Expected expected;
                              expected.add_product(values.at(row * kIn), weight.at(column * kIn), kIn);
                              out.check(got[static_cast<std::size_t>(column)], expected, product_tolerance(kIn));
                            }
                          }
                        }));
  return out;
}

}  // namespace

std::vector<Probe> long_probes(bool untouched_is_free) {
  constexpr std::uint64_t kAll = std::uint64_t{4} * kWidth * kLongRows;
  const std::uint64_t bytes = untouched_is_free ? 64u << 20 : kAll + (64u << 20);
  const bool thorough = !untouched_is_free;
  return {{"rms_norm", "last rows of 2^31 elements", bytes, false, thorough, check_norm},
          {"attention", "last rows of 2^31 elements", bytes, false, thorough, check_attention},
          {"linear", "last rows of 2^31 elements, read and written", bytes, false, thorough, check_linear},
          {"linear", "32->21504, f32, a result of 2^31 elements", kAll + (64u << 20), false, true, check_large_result}};
}

}  // namespace tritium::doctor
