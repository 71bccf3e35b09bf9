// Scaled dot-product attention; float32 in and out.
#pragma once

#include "device/graph.h"
#include "device/weight_matrix.h"

namespace tritium::ops {

enum class AttentionMask { none, causal };

inline constexpr std::int64_t kMaxAttentionScores = std::int64_t{64} << 20;  // in memory at once: 256 MiB

// q [head_dim, heads, rows], k and v [head_dim, kv_heads, keys]; each key/value head serves heads/kv_heads consecutive query heads.
// `causal`: row i sees keys 0..i (rows == keys). Scores are scaled by `scale` > 0 before the softmax. Result [head_dim·heads, rows].
//
// The CPU's kernels (kernels/cpu/attention.h) hold no scores beyond a block. `precision` bf16 lets them round queries, keys, values and
// softmax weights to bfloat16 where the machine multiplies those; softmax and sums stay float32, and one key far ahead of all others gives
// exactly its value. Elsewhere everything is float32, and scores are computed for so many query rows at a time that at most `max_scores` of
// them exist at once (but for at least one row), so that memory grows linearly with the rows.
ggml_tensor* attention(Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, AttentionMask mask,
                       std::int64_t max_scores = kMaxAttentionScores, MatrixPrecision precision = MatrixPrecision::f32);

}  // namespace tritium::ops
