#include "ops/attention.h"

#include <algorithm>

namespace tritium::ops {

ggml_tensor* attention(Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, AttentionMask mask,
                       std::int64_t max_scores) {
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
