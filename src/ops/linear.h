// Linear layers and dense products. Activations are float32 [features, rows] (ggml order: features innermost).
#pragma once

#include "device/graph.h"
#include "device/weight_matrix.h"

namespace tritium::ops {

// Weight [in, out] (the file's [out, in] row-major); bias [out] or nullptr. Low-rank adapters (LoRA) add B·A·x to the product; A is
// `lora_down` [in, rank], B is `lora_up` [rank, out] with every factor already in it, both float32 or both nullptr.
struct Linear {
  WeightMatrix weight;
  ggml_tensor* bias = nullptr;
  ggml_tensor *lora_down = nullptr, *lora_up = nullptr;
};

// y[out, rows] = W · x + b (+ B · A · x). x may have further dimensions; they count as rows. bfloat16 weights, and packed ones that are to
// be multiplied so, take the input rounded to bfloat16; products accumulate in float32. With
// MatrixPrecision::int8 the input becomes integers of 8 bits (kernels/cpu/int8_matmul.h). Devices other than the CPU may keep more
// of the input. Adapters see the unchanged input in float32 (spec/weights.md §6).
ggml_tensor* linear(Graph& graph, const Linear& layer, ggml_tensor* x);

// Whether this machine has fast products of 8-bit integers, so that MatrixPrecision::int8 pays.
bool fast_int8_products();

// How the layer's product is computed on the CPU: what else belongs to it, such as attention of its results, need not be more exact.
MatrixPrecision product_precision(const Linear& layer);

// y[n, m] = sum over k of a[k, n]·b[k, m], both float32 and contiguous matrices; the activation-by-activation product of
// convolutions.
ggml_tensor* matmul(Graph& graph, ggml_tensor* a, ggml_tensor* b);

// silu(gate)·up where x holds both as [gate; up] along the features: [2n, rows] -> [n, rows].
ggml_tensor* silu_gate(Graph& graph, ggml_tensor* x);

}  // namespace tritium::ops
