// The two halves of a transformer block, shared by the token refiner and the main stack (spec/dit.md §4.2).
#pragma once

#include "model/dit/weights.h"
#include "ops/rope.h"

namespace tritium {

// Bidirectional self-attention with normalised q and k; `rotary` null for none. h [hidden, rows] -> [hidden, rows].
ggml_tensor* dit_attention(Graph& graph, const DitConfig& config, const DitBlockWeights& block, ggml_tensor* h,
                           const ops::RotaryTable* rotary);

// fc2(silu(gate)·up), a slice of rows at a time.
ggml_tensor* dit_mlp(Graph& graph, const DitBlockWeights& block, ggml_tensor* h);

}  // namespace tritium
