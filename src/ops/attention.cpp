#include "ops/attention.h"

#include "kernels/cpu/attention.h"

#include <algorithm>

namespace tritium::ops {
namespace {

cpu::Attention::View view_of(const ggml_tensor* t) {
  return {static_cast<const float*>(t->data), static_cast<std::int64_t>(t->nb[1] / sizeof(float)),
          static_cast<std::int64_t>(t->nb[2] / sizeof(float))};
}

// Sources: keys, values.
void run_pack(ggml_tensor* dst, int thread, int threads, void* user_data) {
  static_cast<const cpu::Attention*>(user_data)->pack(thread, threads, view_of(dst->src[0]), view_of(dst->src[1]),
                                                      static_cast<std::uint8_t*>(dst->data));
}

// Sources: queries, packed keys and values.
void run_attention(ggml_tensor* dst, int thread, int threads, void* user_data) {
  static_cast<const cpu::Attention*>(user_data)->compute(
      thread, threads, view_of(dst->src[0]), static_cast<const std::uint8_t*>(dst->src[1]->data), static_cast<float*>(dst->data));
}

ggml_tensor* fast_attention(Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, AttentionMask mask,
                            MatrixPrecision precision) {
  ggml_context* context = graph.context();
  for (ggml_tensor** each : {&q, &k, &v})
    if ((*each)->nb[0] != sizeof(float)) *each = ggml_cont(context, *each);
  const cpu::Attention::Shape shape{q->ne[0], q->ne[1], k->ne[1], q->ne[2], k->ne[2], scale, mask == AttentionMask::causal};
  const cpu::Isa isa = *cpu::usable_isas().begin();
  const bool narrow = precision != MatrixPrecision::f32 && cpu::attention_available(isa, cpu::AttentionType::bf16);
  const auto* kernel = graph.keep(cpu::Attention(shape, narrow ? cpu::AttentionType::bf16 : cpu::AttentionType::f32, isa));
  auto* user_data = const_cast<cpu::Attention*>(kernel);
  ggml_tensor* packed = graph.custom("attention packing", GGML_TYPE_I8, {static_cast<std::int64_t>(kernel->packed_bytes()), 1, 1, 1},
                                     {k, v}, run_pack, kernel->pack_units(), user_data);
  graph.add_work((mask == AttentionMask::causal ? 2.0 : 4.0) * static_cast<double>(ggml_nelements(q)) * static_cast<double>(shape.keys));
  return graph.custom("attention", GGML_TYPE_F32, {shape.head_dim * shape.heads, shape.rows, 1, 1}, {q, packed}, run_attention,
                      kernel->units(), user_data);
}

}  // namespace

ggml_tensor* attention(Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, AttentionMask mask,
                       std::int64_t max_scores, MatrixPrecision precision) {
  if (graph.device().fast_kernels()) return fast_attention(graph, q, k, v, scale, mask, precision);
  ggml_context* context = graph.context();
  const std::int64_t head_dim = q->ne[0], heads = q->ne[1], rows = q->ne[2], keys = k->ne[2];
  ggml_tensor* q_by_head = ggml_permute(context, q, 0, 2, 1, 3);                      // [head_dim, rows, heads]
  ggml_tensor* k_by_head = ggml_cont(context, ggml_permute(context, k, 0, 2, 1, 3));  // [head_dim, keys, kv_heads]
  ggml_tensor* v_by_dim = ggml_cont(context, ggml_permute(context, v, 1, 2, 0, 3));   // [keys, head_dim, kv_heads]

  const std::int64_t step = std::clamp<std::int64_t>(max_scores / (keys * heads), 1, rows);
  ggml_tensor* result = nullptr;
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    ggml_tensor* q_part = ggml_cont(context, ggml_view_3d(context, q_by_head, head_dim, count, heads, q_by_head->nb[1], q_by_head->nb[2],
                                                          static_cast<std::size_t>(first) * q_by_head->nb[1]));
    ggml_tensor* scores = ggml_mul_mat(context, k_by_head, q_part);  // [keys, count, heads]
    ggml_prec_set_acc(scores, GGML_PREC_F32);
    if (mask == AttentionMask::causal) scores = ggml_diag_mask_inf(context, scores, static_cast<int>(first));
    ggml_tensor* weights = ggml_soft_max_ext(context, scores, nullptr, scale, 0.0f);
    ggml_tensor* mixed = ggml_mul_mat(context, v_by_dim, weights);  // [head_dim, count, heads]
    ggml_prec_set_acc(mixed, GGML_PREC_F32);
    mixed = ggml_cont_2d(context, ggml_permute(context, mixed, 0, 2, 1, 3), head_dim * heads, count);
    result = result == nullptr ? mixed : ggml_concat(context, result, mixed, 1);
  }
  return result;
}

}  // namespace tritium::ops
