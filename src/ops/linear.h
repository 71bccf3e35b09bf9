// Linear layers and dense products. Activations are float32 [features, rows] (ggml order: features innermost).
#pragma once

#include "device/graph.h"

namespace tritium::ops {

// Weight [in, out] (the file's [out, in] row-major) in float32 or bfloat16; bias [out] or nullptr.
struct Linear {
  ggml_tensor* weight = nullptr;
  ggml_tensor* bias = nullptr;
};

// y[out, rows] = W · x + b. With bfloat16 weights the input is rounded to bfloat16 and products accumulate in float32.
// x may have further dimensions; they count as rows.
ggml_tensor* linear(Graph& graph, const Linear& layer, ggml_tensor* x);

// y[n, m] = sum over k of a[k, n]·b[k, m], both float32 and contiguous matrices; the activation-by-activation product of
// convolutions.
ggml_tensor* matmul(Graph& graph, ggml_tensor* a, ggml_tensor* b);

// silu(gate)·up where x holds both as [gate; up] along the features: [2n, rows] -> [n, rows].
ggml_tensor* silu_gate(Graph& graph, ggml_tensor* x);

}  // namespace tritium::ops
