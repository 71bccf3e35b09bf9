// Scaled dot-product attention in float32.
#pragma once

#include "device/graph.h"

namespace tritium::ops {

enum class AttentionMask { none, causal };

// q [head_dim, heads, rows], k and v [head_dim, kv_heads, keys]; each key/value head serves heads/kv_heads consecutive query heads.
// `causal`: row i sees keys 0..i (rows == keys). Scores are scaled by `scale` before the softmax. Result [head_dim·heads, rows].
// Scores are computed for a limited number of query rows at a time, so that memory grows linearly with the rows.
ggml_tensor* attention(Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, AttentionMask mask);

}  // namespace tritium::ops
