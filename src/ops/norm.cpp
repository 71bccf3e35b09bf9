#include "ops/norm.h"

namespace tritium::ops {
namespace {

// One chunk of the table spread to every row: [features, rows].
ggml_tensor* rows_of_chunk(Graph& graph, const Modulation& modulation, int chunk) {
  ggml_tensor* table = modulation.table;
  ggml_tensor* view =
      ggml_view_2d(graph.context(), table, table->ne[0], table->ne[2], table->nb[2], static_cast<std::size_t>(chunk) * table->nb[1]);
  return ggml_get_rows(graph.context(), view, modulation.variant_of_row);
}

}  // namespace

ggml_tensor* rms_norm(Graph& graph, ggml_tensor* x, ggml_tensor* weight, float eps) {
  ggml_tensor* y = ggml_rms_norm(graph.context(), x, eps);
  return weight != nullptr ? ggml_mul(graph.context(), y, weight) : y;
}

ggml_tensor* standardized(Graph& graph, ggml_tensor* x, float eps) {
  if (graph.device().is_cpu()) return ggml_norm(graph.context(), x, eps);
  // Devices take the variance as the difference of two sums, which loses it where the mean is large.
  ggml_tensor* centered = ggml_sub(graph.context(), x, ggml_mean(graph.context(), x));
  return ggml_rms_norm(graph.context(), centered, eps);
}

ggml_tensor* layer_norm(Graph& graph, ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias, float eps) {
  ggml_tensor* y = standardized(graph, x, eps);
  return ggml_add(graph.context(), ggml_mul(graph.context(), y, weight), bias);
}

ggml_tensor* modulate(Graph& graph, ggml_tensor* x, const Modulation& modulation, int shift_chunk, int scale_chunk) {
  ggml_context* context = graph.context();
  ggml_tensor* scaled = ggml_add(context, x, ggml_mul(context, x, rows_of_chunk(graph, modulation, scale_chunk)));
  return ggml_add(context, scaled, rows_of_chunk(graph, modulation, shift_chunk));
}

ggml_tensor* gated_add(Graph& graph, ggml_tensor* residual, ggml_tensor* y, const Modulation& modulation, int gate_chunk) {
  ggml_context* context = graph.context();
  return ggml_add(context, residual, ggml_mul(context, y, rows_of_chunk(graph, modulation, gate_chunk)));
}

}  // namespace tritium::ops
