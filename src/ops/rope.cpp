#include "ops/rope.h"

#include "kernels/cpu/rows.h"
#include "ops/norm.h"

#include <algorithm>
#include <cmath>

namespace tritium::ops {
namespace {

struct HeadTask {
  float eps = -1;  // below 0: no normalisation
  bool weight = false, rotation = false;
};

// Sources: x, then what the task says of weight, cosines and sines.
void run_heads(ggml_tensor* dst, int task, int tasks, void* user_data) {
  const HeadTask& t = *static_cast<const HeadTask*>(user_data);
  const ggml_tensor *x = dst->src[0], *weight = t.weight ? dst->src[1] : nullptr;
  const ggml_tensor* cos = t.rotation ? dst->src[t.weight ? 2 : 1] : nullptr;
  const ggml_tensor* sin = t.rotation ? dst->src[t.weight ? 3 : 2] : nullptr;
  const std::int64_t pairs = cos != nullptr ? cos->ne[0] : 0, rows = dst->ne[2];
  const auto at = [](const ggml_tensor* tensor, std::size_t bytes) {
    return reinterpret_cast<const float*>(static_cast<const std::uint8_t*>(tensor->data) + bytes);
  };
  const cpu::RowFunctions& kernels = cpu::row_functions();
  const cpu::Stores stores = cpu::stores_for(ggml_nbytes(dst));
  const auto stride = static_cast<std::int64_t>(x->nb[1] / sizeof(float));
  for (std::int64_t row = rows * task / tasks; row < rows * (task + 1) / tasks; ++row) {
    const auto r = static_cast<std::size_t>(row);
    kernels.norm_rotate(at(x, r * x->nb[2]), dst->ne[1], stride, weight != nullptr ? at(weight, 0) : nullptr,
                        cos != nullptr ? at(cos, r * cos->nb[2]) : nullptr, sin != nullptr ? at(sin, r * sin->nb[2]) : nullptr, pairs,
                        dst->ne[0], t.eps, static_cast<float*>(dst->data) + row * dst->ne[1] * dst->ne[0], stores);
  }
  if (stores == cpu::Stores::streamed) kernels.publish();
}

ggml_tensor* fast_heads(Graph& graph, ggml_tensor* x, ggml_tensor* weight, float eps, const RotaryTable* table) {
  if (x->nb[0] != sizeof(float)) x = ggml_cont(graph.context(), x);
  ggml_tensor *cos = table != nullptr ? table->cos : nullptr, *sin = table != nullptr ? table->sin : nullptr;
  HeadTask* task = graph.keep(HeadTask{eps, weight != nullptr, table != nullptr});
  const std::initializer_list<ggml_tensor*> all = {x, weight, cos, sin}, without_weight = {x, cos, sin};
  return graph.custom("heads", GGML_TYPE_F32, {x->ne[0], x->ne[1], x->ne[2], 1}, weight != nullptr ? all : without_weight, run_heads,
                      x->ne[2], task);
}

}  // namespace

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

ggml_tensor* normalised_heads(Graph& graph, ggml_tensor* x, ggml_tensor* weight, float eps, const RotaryTable* table) {
  if (graph.device().fast_kernels()) return fast_heads(graph, x, weight, eps, table);
  if (!ggml_is_contiguous(x)) x = ggml_cont(graph.context(), x);
  x = rms_norm(graph, x, weight, eps);
  return table != nullptr ? rotate(graph, x, *table) : x;
}

ggml_tensor* rotate(Graph& graph, ggml_tensor* x, const RotaryTable& table) {
  if (graph.device().fast_kernels()) return fast_heads(graph, x, nullptr, -1, &table);
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
