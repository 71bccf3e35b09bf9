// Attention with the real heads, sequences of the real lengths and values up to 500. Expected: softmax in double precision for a few
// queries and heads.
#include "base/try.h"
#include "doctor/probe.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>

namespace tritium::doctor {
namespace {

constexpr std::int64_t kRowsChecked = 3, kHeadsChecked = 3;

struct Shape {
  std::int64_t head_dim, heads, kv_heads, rows, keys;
  ops::AttentionMask mask = ops::AttentionMask::none;
};

struct Inputs {
  std::vector<float> q_values;  // changed ones, if not empty
  Values q, k, v;
  Inputs(double scale, unsigned seed) : q(seed, scale), k(seed + 1, scale), v(seed + 2) {}
};

// One head of one row, the sum of the values weighted by softmax(q·k·scale).
std::vector<double> expected_head(const Shape& s, const float* q, const Inputs& in, std::int64_t row, std::int64_t head) {
  const std::int64_t kv_head = head / (s.heads / s.kv_heads), seen = s.mask == ops::AttentionMask::causal ? row + 1 : s.keys;
  const auto at = [&](std::int64_t key) { return (key * s.kv_heads + kv_head) * s.head_dim; };
  std::vector<double> weights(static_cast<std::size_t>(seen));
  for (std::int64_t key = 0; key < seen; ++key) {
    const float* other = in.k.at(at(key));
    double sum = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d) sum += static_cast<double>(q[d]) * static_cast<double>(other[d]);
    weights[static_cast<std::size_t>(key)] = sum / std::sqrt(static_cast<double>(s.head_dim));
  }
  const double top = *std::max_element(weights.begin(), weights.end());
  for (double& w : weights) w = std::exp(w - top);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> out(static_cast<std::size_t>(s.head_dim));
  for (std::int64_t key = 0; key < seen; ++key) {
    const float* value = in.v.at(at(key));
    for (std::int64_t d = 0; d < s.head_dim; ++d)
      out[static_cast<std::size_t>(d)] += weights[static_cast<std::size_t>(key)] / total * static_cast<double>(value[d]);
  }
  return out;
}

Result<Comparison> compare(Bench& bench, const Shape& s, const Inputs& in, double tolerance,
                           MatrixPrecision precision = MatrixPrecision::f32) {
  ggml_tensor* q = nullptr;
  if (in.q_values.empty()) {
    TRITIUM_TRY_ASSIGN(q, bench.tensor({s.head_dim, s.heads, s.rows}, in.q));
  } else {
    TRITIUM_TRY_ASSIGN(q, bench.tensor({s.head_dim, s.heads, s.rows}, in.q_values));
  }
  TRITIUM_TRY_ASSIGN(ggml_tensor * k, bench.tensor({s.head_dim, s.kv_heads, s.keys}, in.k));
  TRITIUM_TRY_ASSIGN(ggml_tensor * v, bench.tensor({s.head_dim, s.kv_heads, s.keys}, in.v));
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.head_dim)));
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) {
    return bench.operations().attention(graph, q, k, v, scale, s.mask, ops::kMaxAttentionScores, precision);
  }));
  Comparison out;
  for (const std::int64_t row : picked(s.rows, kRowsChecked))
    for (const std::int64_t head : picked(s.heads, kHeadsChecked)) {
      const std::int64_t first = (row * s.heads + head) * s.head_dim;
      const std::vector<double> expected =
          expected_head(s, in.q_values.empty() ? in.q.at(first) : in.q_values.data() + first, in, row, head);
      for (std::int64_t d = 0; d < s.head_dim; ++d)
        out.check(y[static_cast<std::size_t>(first + d)], expected[static_cast<std::size_t>(d)], 1.0, tolerance);
    }
  return out;
}

// Rounding of scores of 500·500·128 is felt in the weights: field case C2 asks for 1e-3.
constexpr double kOrdinary = 5e-6, kLarge = 1e-3;

Result<Comparison> ordinary(Bench& bench, const Shape& s) { return compare(bench, s, Inputs(1, 11), kOrdinary); }
// Rounding of what is multiplied to bfloat16: of values within 1, and through scores within 1 of their differences.
Result<Comparison> narrow(Bench& bench, const Shape& s) { return compare(bench, s, Inputs(1, 12), 0x1p-8, MatrixPrecision::bf16); }
Result<Comparison> large(Bench& bench, const Shape& s) { return compare(bench, s, Inputs(500, 21), kLarge); }

// Large scores whose differences are ordinary: every query has one feature of 500 that meets ordinary ones of the keys.
Result<Comparison> outlier_feature(Bench& bench, const Shape& s) {
  Inputs in(1, 31);
  in.q_values = in.q.first(s.head_dim * s.heads * s.rows);
  for (std::size_t i = 77; i < in.q_values.size(); i += static_cast<std::size_t>(s.head_dim)) in.q_values[i] = 500.0f;
  return compare(bench, s, in, kLarge);
}

Result<Comparison> lengths(Bench& bench, Shape s, std::span<const std::int64_t> all) {
  Comparison out;
  for (const std::int64_t length : all) {
    s.rows = s.keys = length;
    TRITIUM_TRY_ASSIGN(const Comparison one, ordinary(bench, s));
    out.merge(one, fmt::format("{} tokens", length));
  }
  return out;
}

constexpr std::int64_t kTextLengths[] = {1, 2, 63, 64, 65, 300, 600};

// Keys and values, each beside a copy in the order the products need.
std::uint64_t bytes_of(const Shape& s) {
  return static_cast<std::uint64_t>(16 * s.head_dim * s.kv_heads * s.keys +
                                    8 * std::min(ops::kMaxAttentionScores, s.rows * s.keys * s.heads));
}

using Check = Result<Comparison> (*)(Bench&, const Shape&);
void add(std::vector<Probe>& out, const std::string& what, const Shape& s, Check check, bool thorough = false) {
  out.push_back(
      {"attention",
       fmt::format("{}, {} head{} of {}, {} queries, {} keys", what, s.heads, s.heads == 1 ? "" : "s", s.head_dim, s.rows, s.keys),
       bytes_of(s), false, thorough, [s, check](Bench& bench) { return check(bench, s); }});
}

}  // namespace

std::vector<Probe> attention_probes() {
  std::vector<Probe> out;
  const auto causal = ops::AttentionMask::causal;
  add(out, "transformer", {128, 56, 56, 3, 2017}, ordinary);
  add(out, "transformer beside bfloat16 matrices", {128, 56, 56, 3, 2017}, narrow);
  add(out, "values up to 500", {128, 56, 56, 3, 2017}, large);
  add(out, "one feature of 500", {128, 8, 8, 65, 2017}, outlier_feature);
  const Shape text{128, 64, 8, 600, 600, causal};
  out.push_back({"attention", "text of 1 to 600 tokens, causal, 64 heads of 128 for 8 keys", bytes_of(text), false, false,
                 [text](Bench& bench) { return lengths(bench, text, kTextLengths); }});
  const Shape refiner{128, 56, 56, 600, 600};
  out.push_back({"attention", "refiner, text of 1 to 600 tokens, 56 heads of 128", bytes_of(refiner), false, false,
                 [refiner](Bench& bench) { return lengths(bench, refiner, kTextLengths); }});
  // Rows of 480x832x124, 768x1344x124 and 768x1344x362: spec/dit.md §15.
  add(out, "832x480, 124 frames", {128, 2, 2, 3, 15144}, ordinary);
  add(out, "1344x768, 124 frames", {128, 2, 2, 3, 38010}, ordinary);
  add(out, "1344x768, 362 frames", {128, 1, 1, 3, 109362}, ordinary);
  add(out, "video decoder", {64, 32, 32, 3, 1797}, ordinary);
  add(out, "vision", {72, 16, 16, 3, 1037}, ordinary);
  add(out, "sound encoder, causal", {256, 8, 8, 207, 207, causal}, ordinary);
  add(out, "832x480, 124 frames", {128, 56, 56, 3, 15144}, ordinary, true);
  add(out, "1344x768, 124 frames", {128, 56, 56, 3, 38010}, ordinary, true);
  add(out, "1344x768, 362 frames", {128, 56, 56, 3, 109362}, large, true);
  const Shape narrow{128, 2, 1, 600, 600, causal};
  out.push_back(
      {"attention", "every text length from 1 to 600, causal, 2 heads of 128", bytes_of(narrow), false, true, [narrow](Bench& bench) {
         std::vector<std::int64_t> all(600);
         std::iota(all.begin(), all.end(), 1);
         return lengths(bench, narrow, all);
       }});
  return out;
}

}  // namespace tritium::doctor
