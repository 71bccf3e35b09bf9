// Scaled dot-product attention in float32.
#pragma once

#include "device/graph.h"

namespace tritium::ops {

enum class AttentionMask { none, causal };

inline constexpr std::int64_t kMaxAttentionScores = std::int64_t{64} << 20;  // in memory at once: 256 MiB

// q [head_dim, heads, rows], k and v [head_dim, kv_heads, keys]; each key/value head serves heads/kv_heads consecutive query heads.
// `causal`: row i sees keys 0..i (rows == keys). Scores are scaled by `scale` before the softmax. Result [head_dim·heads, rows].
// Scores are computed for so many query rows at a time that at most `max_scores` of them exist at once (but for at least one row), so
// that memory grows linearly with the rows.
ggml_tensor* attention(Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, AttentionMask mask,
                       std::int64_t max_scores = kMaxAttentionScores);

}  // namespace tritium::ops
