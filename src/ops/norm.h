// Normalisations over the features (ne0) of float32 activations.
#pragma once

#include "device/graph.h"

namespace tritium::ops {

// x / sqrt(mean(x²) + eps) · weight; weight [features] or nullptr for none.
ggml_tensor* rms_norm(Graph& graph, ggml_tensor* x, ggml_tensor* weight, float eps);

// (x - mean) / sqrt(var + eps), biased variance.
ggml_tensor* standardized(Graph& graph, ggml_tensor* x, float eps);

// The same · weight + bias.
ggml_tensor* layer_norm(Graph& graph, ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias, float eps);

// Per-row modulation of the diffusion transformer (spec/dit.md §4.4). `table` is [features, chunks, variants]; a row uses the variant
// given by `variant_of_row` (int32 [rows]).
struct Modulation {
  ggml_tensor* table = nullptr;
  ggml_tensor* variant_of_row = nullptr;
};

// x·(1 + scale) + shift with chunks `scale_chunk` and `shift_chunk` of the table.
ggml_tensor* modulate(Graph& graph, ggml_tensor* x, const Modulation& modulation, int shift_chunk, int scale_chunk);

// Both in one: rms_norm(x)·(1 + scale) + shift.
ggml_tensor* modulated_rms_norm(Graph& graph, ggml_tensor* x, ggml_tensor* weight, float eps, const Modulation& modulation, int shift_chunk,
                                int scale_chunk);

// residual + gate·y with chunk `gate_chunk`.
ggml_tensor* gated_add(Graph& graph, ggml_tensor* residual, ggml_tensor* y, const Modulation& modulation, int gate_chunk);

}  // namespace tritium::ops
