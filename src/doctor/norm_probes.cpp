// Norms, modulation, gates and the rotary embedding with the residual stream's real range: 1e6 with outliers of 1e7 (spec/dit.md §16).
#include "base/try.h"
#include "doctor/probe.h"

#include <algorithm>
#include <cmath>

namespace tritium::doctor {
namespace {

constexpr std::int64_t kHidden = 5376, kFfn = 14336, kHeads = 56, kHeadDim = 128, kPairs = 48, kRows = 65, kVideoHidden = 2048;
constexpr std::int64_t kRowsChecked = 5;
constexpr float kEps = 1e-5f;

double mean_square(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum / static_cast<double>(count);
}

// `heads` norms of `features` values in every row.
Result<Comparison> check_rms_norm(Bench& bench, std::int64_t features, std::int64_t heads, double scale, double outlier) {
  const Values input(1, scale, Values::Type::f32, outlier), weight(2, 2);
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({features, heads, kRows}, input));
  TRITIUM_TRY_ASSIGN(ggml_tensor * w, bench.tensor({features}, weight));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) { return bench.operations().rms_norm(graph, x, w, kEps); }));
  Comparison out;
  for (const std::int64_t row : picked(heads * kRows, kRowsChecked)) {
    const float* values = input.at(row * features);
    const double factor = 1 / std::sqrt(mean_square(values, features) + static_cast<double>(kEps));
    for (std::int64_t i = 0; i < features; ++i) {
      const double expected = static_cast<double>(values[i]) * factor * static_cast<double>(*weight.at(i));
      out.check(y[static_cast<std::size_t>(row * features + i)], expected, std::abs(expected), 3e-6);
    }
  }
  return out;
}

Result<Comparison> check_layer_norm(Bench& bench) {
  const Values input(3, 1e3, Values::Type::f32, 10), weight(4), bias(5);
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({kVideoHidden, kRows}, input));
  TRITIUM_TRY_ASSIGN(ggml_tensor * w, bench.tensor({kVideoHidden}, weight));
  TRITIUM_TRY_ASSIGN(ggml_tensor * b, bench.tensor({kVideoHidden}, bias));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y,
                     bench.run([&](Graph& graph) { return bench.operations().layer_norm(graph, x, w, b, kEps); }));
  Comparison out;
  for (const std::int64_t row : picked(kRows, kRowsChecked)) {
    const float* values = input.at(row * kVideoHidden);
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < kVideoHidden; ++i) mean += static_cast<double>(values[i]) / kVideoHidden;
    for (std::int64_t i = 0; i < kVideoHidden; ++i) variance += std::pow(static_cast<double>(values[i]) - mean, 2) / kVideoHidden;
    for (std::int64_t i = 0; i < kVideoHidden; ++i) {
      Expected expected;
      const double factor = static_cast<double>(*weight.at(i)) / std::sqrt(variance + static_cast<double>(kEps));
      expected.add(static_cast<double>(values[i]) * factor);
      expected.add(-mean * factor);
      expected.add(static_cast<double>(*bias.at(i)));
      out.check(y[static_cast<std::size_t>(row * kVideoHidden + i)], expected, 5e-6);
    }
  }
  return out;
}

// The table of three modalities at two times, six chunks each; rows use them in turn.
constexpr std::int64_t kChunks = 6, kVariants = 6;
constexpr int kShift = 3, kScale = 4, kGate = 5;

struct ModulationProblem {
  Values table{6, 2};
  std::vector<std::int32_t> variants;
  ModulationProblem() {
    for (std::int64_t row = 0; row < kRows; ++row) variants.push_back(static_cast<std::int32_t>(row * 5 % kVariants));
  }
  [[nodiscard]] const float* chunk(std::int64_t row, int index) const {
    return table.at((variants[static_cast<std::size_t>(row)] * kChunks + index) * kHidden);
  }
};

Result<Comparison> check_modulate(Bench& bench) {
  const ModulationProblem problem;
  const Values input(7, 4, Values::Type::f32, 10);
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({kHidden, kRows}, input));
  TRITIUM_TRY_ASSIGN(ggml_tensor * table, bench.tensor({kHidden, kChunks, kVariants}, problem.table));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) {
    return bench.operations().modulate(graph, x, {table, graph.input_i32("variants", problem.variants)}, kShift, kScale);
  }));
  Comparison out;
  for (const std::int64_t row : picked(kRows, kRowsChecked))
    for (std::int64_t i = 0; i < kHidden; ++i) {
      const double value = static_cast<double>(*input.at(row * kHidden + i));
      Expected expected;
      expected.add(value);
      expected.add(value * static_cast<double>(problem.chunk(row, kScale)[i]));
      expected.add(static_cast<double>(problem.chunk(row, kShift)[i]));
      out.check(y[static_cast<std::size_t>(row * kHidden + i)], expected, 5e-7);
    }
  return out;
}

Result<Comparison> check_gated_add(Bench& bench) {
  const ModulationProblem problem;
  const Values residual(8, 1e6, Values::Type::f32, 10), update(9, 1e5);
  TRITIUM_TRY_ASSIGN(ggml_tensor * r, bench.tensor({kHidden, kRows}, residual));
  TRITIUM_TRY_ASSIGN(ggml_tensor * u, bench.tensor({kHidden, kRows}, update));
  TRITIUM_TRY_ASSIGN(ggml_tensor * table, bench.tensor({kHidden, kChunks, kVariants}, problem.table));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) {
    return bench.operations().gated_add(graph, r, u, {table, graph.input_i32("variants", problem.variants)}, kGate);
  }));
  Comparison out;
  for (const std::int64_t row : picked(kRows, kRowsChecked))
    for (std::int64_t i = 0; i < kHidden; ++i) {
      Expected expected;
      expected.add(static_cast<double>(*residual.at(row * kHidden + i)));
      expected.add(static_cast<double>(*update.at(row * kHidden + i)) * static_cast<double>(problem.chunk(row, kGate)[i]));
      out.check(y[static_cast<std::size_t>(row * kHidden + i)], expected, 5e-7);
    }
  return out;
}

Result<Comparison> check_silu_gate(Bench& bench) {
  const Values input(10, 300);
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({2 * kFfn, kRows}, input));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) { return bench.operations().silu_gate(graph, x); }));
  Comparison out;
  for (const std::int64_t row : picked(kRows, kRowsChecked))
    for (std::int64_t i = 0; i < kFfn; ++i) {
      const double gate = static_cast<double>(*input.at(row * 2 * kFfn + i));
      const double up = static_cast<double>(*input.at(row * 2 * kFfn + kFfn + i));
      const double expected = gate / (1 + std::exp(-gate)) * up;
      // Far below zero the gate closes: what is left of it is not worth its digits.
      out.check(y[static_cast<std::size_t>(row * kFfn + i)], expected, std::max(std::abs(expected), 1e-3 * std::abs(gate * up)), 2e-6);
    }
  return out;
}

Result<Comparison> check_rotate(Bench& bench) {
  const Values input(11, 500), angles(12, 1e4);
  const std::vector<float> table = angles.first(kPairs * kRows);
  const ops::RotaryValues rotary = ops::rotary_values(table);
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({kHeadDim, kHeads, kRows}, input));
  ops::RotaryTable tables;
  TRITIUM_TRY_ASSIGN(tables.cos, bench.tensor({kPairs, 1, kRows}, rotary.cos));
  TRITIUM_TRY_ASSIGN(tables.sin, bench.tensor({kPairs, 1, kRows}, rotary.sin));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) { return bench.operations().rotate(graph, x, tables); }));
  Comparison out;
  for (const std::int64_t row : picked(kRows, kRowsChecked))
    for (const std::int64_t head : picked(kHeads, 3)) {
      const std::int64_t first = (row * kHeads + head) * kHeadDim;
      const float* v = input.at(first);
      for (std::int64_t d = 0; d < kHeadDim; ++d) {
        Expected expected;
        if (d < 2 * kPairs) {
          const double angle = static_cast<double>(table[static_cast<std::size_t>(row * kPairs + d % kPairs)]);
          const std::int64_t partner = d < kPairs ? d + kPairs : d - kPairs;
          expected.add(static_cast<double>(v[d]) * std::cos(angle));
          expected.add(static_cast<double>(v[partner]) * std::sin(angle) * (d < kPairs ? -1 : 1));
        } else {
          expected.add(static_cast<double>(v[d]));
        }
        out.check(y[static_cast<std::size_t>(first + d)], expected, 5e-7);
      }
    }
  return out;
}

constexpr std::uint64_t kSmall = 32u << 20;

}  // namespace

std::vector<Probe> norm_probes() {
  return {
      {"rms_norm", "5376 features, residual 1e6 with outliers of 1e7", kSmall, false, false,
       [](Bench& bench) { return check_rms_norm(bench, kHidden, 1, 1e6, 10); }},
      {"rms_norm", "56 heads of 128, values up to 500", kSmall, false, false,
       [](Bench& bench) { return check_rms_norm(bench, kHeadDim, kHeads, 500, 1); }},
      {"layer_norm", "2048 features", kSmall, false, false, check_layer_norm},
      {"modulate", "5376 features, 6 variants", kSmall, false, false, check_modulate},
      {"gated_add", "5376 features, residual 1e6 with outliers of 1e7", kSmall, false, false, check_gated_add},
      {"silu_gate", "14336 features, products up to 9e4", kSmall, false, false, check_silu_gate},
      {"rotate", "56 heads of 128, 48 pairs, values up to 500, angles up to 1e4", kSmall, false, false, check_rotate},
  };
}

}  // namespace tritium::doctor
