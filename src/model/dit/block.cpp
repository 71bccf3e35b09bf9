#include "model/dit/block.h"

#include "ops/attention.h"
#include "ops/norm.h"
#include "ops/rows.h"

#include <cmath>

namespace tritium {
namespace {

constexpr std::int64_t kMlpRows = 4096;  // bounds the widest intermediate: 28672 values per row in the full model

}  // namespace

ggml_tensor* dit_attention(Graph& graph, const DitConfig& c, const DitBlockWeights& block, ggml_tensor* h, const ops::RotaryTable* rotary) {
  ggml_context* context = graph.context();
  ggml_tensor* qkv = ops::linear(graph, block.qkv, h);  // [3·inner, rows]
  const auto part = [&](std::int64_t index) {
    const std::size_t element = ggml_element_size(qkv);
    return ggml_view_3d(context, qkv, c.head_dim, c.heads, qkv->ne[1], static_cast<std::size_t>(c.head_dim) * element, qkv->nb[1],
                        static_cast<std::size_t>(index * c.inner()) * element);
  };
  const auto normalised = [&](std::int64_t index, ggml_tensor* weight) {
    return ops::normalised_heads(graph, part(index), weight, c.eps, rotary);
  };
  ggml_tensor* q = graph.name("q_rope", normalised(0, block.q_norm));
  ggml_tensor* k = graph.name("k_rope", normalised(1, block.k_norm));
  ggml_tensor* v = graph.name("v", part(2));
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  ggml_tensor* mixed = graph.name("attn_heads", ops::attention(graph, q, k, v, scale, ops::AttentionMask::none, ops::kMaxAttentionScores,
                                                               ops::product_precision(block.qkv)));
  return graph.name("attn_out", ops::linear(graph, block.out, mixed));
}

ggml_tensor* dit_mlp(Graph& graph, const DitBlockWeights& block, ggml_tensor* h) {
  ggml_tensor* y = ops::by_rows(graph, h, kMlpRows, [&](ggml_tensor* rows) {
    return ops::linear(graph, block.fc2, ops::silu_gate(graph, ops::linear(graph, block.fc1, rows)));
  });
  return graph.name("mlp_out", y);
}

}  // namespace tritium
