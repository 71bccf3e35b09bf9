#include "ops/rope.h"

#include <cmath>

namespace tritium::ops {

RotaryValues rotary_values(std::span<const float> angles) {
  RotaryValues out{std::vector<float>(angles.size()), std::vector<float>(angles.size())};
  for (std::size_t i = 0; i < angles.size(); ++i) {
    out.cos[i] = static_cast<float>(std::cos(static_cast<double>(angles[i])));
    out.sin[i] = static_cast<float>(std::sin(static_cast<double>(angles[i])));
  }
  return out;
}

RotaryTable rotary_table(Graph& graph, std::span<const float> angles, std::int64_t pairs) {
  const RotaryValues values = rotary_values(angles);
  const std::int64_t rows = static_cast<std::int64_t>(angles.size()) / pairs;
  return {graph.input("rope_cos", values.cos, {pairs, 1, rows}), graph.input("rope_sin", values.sin, {pairs, 1, rows})};
}

ggml_tensor* rotate(Graph& graph, ggml_tensor* x, const RotaryTable& table) {
  ggml_context* context = graph.context();
  const std::int64_t pairs = table.cos->ne[0];
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return ggml_view_3d(context, x, count, x->ne[1], x->ne[2], x->nb[1], x->nb[2], static_cast<std::size_t>(first) * x->nb[0]);
  };
  ggml_tensor* a = ggml_cont(context, part(0, pairs));
  ggml_tensor* b = ggml_cont(context, part(pairs, pairs));
  ggml_tensor* a_rotated = ggml_sub(context, ggml_mul(context, a, table.cos), ggml_mul(context, b, table.sin));
  ggml_tensor* b_rotated = ggml_add(context, ggml_mul(context, b, table.cos), ggml_mul(context, a, table.sin));
  ggml_tensor* rotated = ggml_concat(context, a_rotated, b_rotated, 0);
  if (2 * pairs == x->ne[0]) return rotated;
  return ggml_concat(context, rotated, ggml_cont(context, part(2 * pairs, x->ne[0] - 2 * pairs)), 0);
}

}  // namespace tritium::ops
