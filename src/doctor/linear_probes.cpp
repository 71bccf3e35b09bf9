// Linear layers at the real widths. Expected: every product in double precision, the input rounded to bfloat16 where ops/linear.h says so.
#include "base/try.h"
#include "doctor/probe.h"
#include "weights/dtype.h"

#include <fmt/format.h>
#include <array>
#include <cmath>

namespace tritium::doctor {
namespace {

constexpr std::int64_t kRows = 65, kRowsOfTwoTiles = 513;
constexpr std::int64_t kRowsChecked = 3, kColumnsChecked = 61;

struct Layer {
  const char* name;
  std::int64_t in, out, rows;
  ggml_type type;
  bool bias = false, thorough = false;
  double scale = 1;  // of the inputs
};

constexpr ggml_type kF32 = GGML_TYPE_F32, kBf16 = GGML_TYPE_BF16;
// Inputs of fc2 and outputs beyond the range of half precision: spec/dit.md §16.
constexpr Layer kLayers[] = {
    {"transformer qkv", 5376, 21504, kRows, kBf16},
    {"transformer fc2", 14336, 5376, kRows, kBf16, false, false, 1e5},
    {"transformer fc1", 5376, 28672, kRows, kBf16},
    {"transformer out", 7168, 5376, kRows, kBf16},
    {"transformer out", 7168, 5376, kRows, kF32},
    {"condition", 5120, 5376, kRows, kBf16, true, false, 1e3},
    {"modulation, pruned", 8, 96768, 2, kF32, true},
    {"video rows in", 96, 5376, kRowsOfTwoTiles, kF32, true},
    {"sound rows in", 32, 5376, kRows, kF32, true},
    {"video rows out", 5376, 96, kRowsOfTwoTiles, kF32, true},
    {"sound rows out", 5376, 32, kRows, kF32, true},
    {"time", 256, 5376, 1, kF32, true},
    {"text down", 25600, 5120, kRows, kBf16, false, false, 1e4},
    {"text q", 5120, 8192, kRows, kBf16},
    {"vision fc2", 4304, 1152, kRows, kBf16, true},
    {"video decoder in", 24, 2048, kRows, kF32, true},
    {"video decoder qkv", 2048, 6144, kRows, kF32, true},
    {"video decoder w2", 8192, 2048, kRows, kF32, true},
    {"video decoder out", 2048, 3072, kRows, kF32, true},
    {"video decoder w1", 2048, 16384, kRows, kF32, true, true},
    {"text gate", 5120, 25600, kRows, kBf16, false, true},
    {"modulation", 2688, 96768, 2, kBf16, true, true},
    {"transformer qkv", 5376, 21504, kRowsOfTwoTiles, kBf16, false, true},
    {"transformer qkv", 5376, 21504, kRows, kF32, false, true},
    {"transformer fc1", 5376, 28672, kRows, kF32, false, true},
    {"transformer fc2", 14336, 5376, kRows, kF32, false, true, 1e6},
    {"text down", 25600, 5120, kRows, kF32, false, true, 1e4},
};

// Weights and inputs of one layer.
struct Problem {
  Problem(std::int64_t in, ggml_type type, double scale)
      : weight(1, 1 / std::sqrt(static_cast<double>(in)), type == kBf16 ? Values::Type::bf16 : Values::Type::f32),
        input(2, scale),
        bias(3) {}
  Values weight, input, bias;
};

Result<Comparison> run_layer(Bench& bench, const Layer& layer, const Problem& problem, const ops::Linear& linear) {
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({layer.in, layer.rows}, problem.input));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) { return bench.operations().linear(graph, linear, x); }));
  const bool narrow = layer.type == kBf16, rounds = narrow && bench.device().is_cpu();
  const double tolerance = product_tolerance(layer.in) + (narrow && !rounds ? rounding_tolerance(layer.in) : 0);
  Comparison out;
  for (const std::int64_t row : picked(layer.rows, kRowsChecked)) {
    const float* begin = problem.input.at(row * layer.in);
    std::vector<float> input(begin, begin + layer.in);
    if (rounds)
      for (float& v : input) v = bf16_to_f32(f32_to_bf16(v));
    for (const std::int64_t column : picked(layer.out, kColumnsChecked)) {
      Expected expected;
      if (layer.bias) expected.add(static_cast<double>(*problem.bias.at(column)));
      expected.add_product(input.data(), problem.weight.at(column * layer.in), layer.in);
      out.check(y[static_cast<std::size_t>(row * layer.out + column)], expected, tolerance);
    }
  }
  return out;
}

Result<Comparison> check_layer(Bench& bench, Layer layer, std::span<const std::int64_t> lengths) {
  const Problem problem(layer.in, layer.type, layer.scale);
  ops::Linear linear;
  TRITIUM_TRY_ASSIGN(linear.weight.values, bench.tensor(layer.type, {layer.in, layer.out}, problem.weight));
  if (layer.bias) { TRITIUM_TRY_ASSIGN(linear.bias, bench.tensor({layer.out}, problem.bias)); }
  Comparison out;
  for (const std::int64_t rows : lengths) {
    layer.rows = rows;
    TRITIUM_TRY_ASSIGN(const Comparison one, run_layer(bench, layer, problem, linear));
    out.merge(one, lengths.size() > 1 ? fmt::format("{} rows", rows) : "");
  }
  return out;
}

std::uint64_t bytes_of(const Layer& layer) {
  return static_cast<std::uint64_t>(layer.in * layer.out * (layer.type == kBf16 ? 2 : 4) + (layer.in + layer.out) * layer.rows * 8);
}

}  // namespace

std::vector<Probe> linear_probes() {
  std::vector<Probe> out;
  for (const Layer& layer : kLayers) {
    std::string what = fmt::format("{} {}->{}, {}, {} row{}", layer.name, layer.in, layer.out, layer.type == kBf16 ? "bf16" : "f32",
                                   layer.rows, layer.rows == 1 ? "" : "s");
    if (layer.scale > 1) what += fmt::format(", inputs up to {:g}", layer.scale);
    out.push_back({"linear", std::move(what), bytes_of(layer), true, layer.thorough,
                   [layer](Bench& bench) { return check_layer(bench, layer, std::array{layer.rows}); }});
  }
  static constexpr std::int64_t kLengths[] = {1, 2, 63, 64, 65, 300, 600};
  const Layer key{"text k", 5120, 1024, 600, kBf16};
  out.push_back({"linear", "text k 5120->1024, bf16, texts of 1 to 600 tokens", bytes_of(key), true, false,
                 [key](Bench& bench) { return check_layer(bench, key, kLengths); }});
  return out;
}

}  // namespace tritium::doctor
