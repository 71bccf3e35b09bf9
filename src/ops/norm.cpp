#include "ops/norm.h"

#include "kernels/cpu/rows.h"

namespace tritium::ops {
namespace {

struct RowTask {
  float eps = 0;
  int first_chunk = 0, second_chunk = 0;
};

const float* floats(const ggml_tensor* t) { return t != nullptr ? static_cast<const float*>(t->data) : nullptr; }

// Calls `work(kernels, row, out, stores)` for a share of the rows.
template <class Work>
void for_rows(const ggml_tensor* dst, int task, int tasks, Work work) {
  const cpu::RowFunctions& kernels = cpu::row_functions();
  const cpu::Stores stores = cpu::stores_for(ggml_nbytes(dst));
  const std::int64_t rows = ggml_nrows(dst);
  for (std::int64_t row = rows * task / tasks; row < rows * (task + 1) / tasks; ++row)
    work(kernels, row, static_cast<float*>(dst->data) + row * dst->ne[0], stores);
  if (stores == cpu::Stores::streamed) kernels.publish();
}

// Chunk `chunk` of the table for one row.
const float* chunk_of_row(const ggml_tensor* table, const ggml_tensor* variant_of_row, int chunk, std::int64_t row) {
  const auto variant = static_cast<const std::int32_t*>(variant_of_row->data)[row];
  const auto* start = static_cast<const std::uint8_t*>(table->data) + static_cast<std::size_t>(chunk) * table->nb[1];
  return reinterpret_cast<const float*>(start + static_cast<std::size_t>(variant) * table->nb[2]);
}

// Sources: x, then, if present, the weight.
void run_rms_norm(ggml_tensor* dst, int task, int tasks, void* user_data) {
  const RowTask& t = *static_cast<const RowTask*>(user_data);
  for_rows(dst, task, tasks, [&](const cpu::RowFunctions& kernels, std::int64_t row, float* y, cpu::Stores stores) {
    kernels.modulated_norm(floats(dst->src[0]) + row * dst->ne[0], floats(dst->src[1]), nullptr, nullptr, dst->ne[0], t.eps, y, stores);
  });
}

// Sources: x, table, variants, then, if present, the weight.
void run_modulated_norm(ggml_tensor* dst, int task, int tasks, void* user_data) {
  const RowTask& t = *static_cast<const RowTask*>(user_data);
  for_rows(dst, task, tasks, [&](const cpu::RowFunctions& kernels, std::int64_t row, float* y, cpu::Stores stores) {
    kernels.modulated_norm(floats(dst->src[0]) + row * dst->ne[0], floats(dst->src[3]),
                           chunk_of_row(dst->src[1], dst->src[2], t.second_chunk, row),
                           chunk_of_row(dst->src[1], dst->src[2], t.first_chunk, row), dst->ne[0], t.eps, y, stores);
  });
}

// Sources: residual, table, variants, y.
void run_gated_add(ggml_tensor* dst, int task, int tasks, void* user_data) {
  const RowTask& t = *static_cast<const RowTask*>(user_data);
  for_rows(dst, task, tasks, [&](const cpu::RowFunctions& kernels, std::int64_t row, float* y, cpu::Stores stores) {
    kernels.gated_add(floats(dst->src[0]) + row * dst->ne[0], floats(dst->src[3]) + row * dst->ne[0],
                      chunk_of_row(dst->src[1], dst->src[2], t.first_chunk, row), dst->ne[0], y, stores);
  });
}

ggml_tensor* row_node(Graph& graph, const char* kind, const ggml_tensor* like, std::initializer_list<ggml_tensor*> sources,
                      ggml_custom_op_t run, RowTask task) {
  return graph.custom(kind, GGML_TYPE_F32, Graph::extents(like), sources, run, ggml_nrows(like), graph.keep(task));
}

ggml_tensor* contiguous(Graph& graph, ggml_tensor* x) { return ggml_is_contiguous(x) ? x : ggml_cont(graph.context(), x); }

// One chunk of the table spread to every row: [features, rows].
ggml_tensor* rows_of_chunk(Graph& graph, const Modulation& modulation, int chunk) {
  ggml_tensor* table = modulation.table;
  ggml_tensor* view =
      ggml_view_2d(graph.context(), table, table->ne[0], table->ne[2], table->nb[2], static_cast<std::size_t>(chunk) * table->nb[1]);
  return ggml_get_rows(graph.context(), view, modulation.variant_of_row);
}

}  // namespace

ggml_tensor* rms_norm(Graph& graph, ggml_tensor* x, ggml_tensor* weight, float eps) {
  if (graph.device().fast_kernels()) {
    x = contiguous(graph, x);
    return row_node(graph, "rms norm", x, {x, weight}, run_rms_norm, {eps});
  }
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

ggml_tensor* modulated_rms_norm(Graph& graph, ggml_tensor* x, ggml_tensor* weight, float eps, const Modulation& modulation, int shift_chunk,
                                int scale_chunk) {
  if (!graph.device().fast_kernels()) return modulate(graph, rms_norm(graph, x, weight, eps), modulation, shift_chunk, scale_chunk);
  x = contiguous(graph, x);
  return row_node(graph, "modulated norm", x, {x, modulation.table, modulation.variant_of_row, weight}, run_modulated_norm,
                  {eps, shift_chunk, scale_chunk});
}

ggml_tensor* gated_add(Graph& graph, ggml_tensor* residual, ggml_tensor* y, const Modulation& modulation, int gate_chunk) {
  if (graph.device().fast_kernels()) {
    residual = contiguous(graph, residual);
    return row_node(graph, "gated add", residual, {residual, modulation.table, modulation.variant_of_row, contiguous(graph, y)},
                    run_gated_add, {0, gate_chunk});
  }
  ggml_context* context = graph.context();
  return ggml_add(context, residual, ggml_mul(context, y, rows_of_chunk(graph, modulation, gate_chunk)));
}

}  // namespace tritium::ops
