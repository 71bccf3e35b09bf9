// Rotary position embedding with angles that the model part computes itself (several axes, partial rotation, fractional positions).
#pragma once

#include "device/graph.h"

namespace tritium::ops {

// cos and sin of the angles: [pairs, 1, rows] float32 each.
struct RotaryTable {
  ggml_tensor* cos = nullptr;
  ggml_tensor* sin = nullptr;
};

// Cosines and sines of angles in radians, taken in double precision so that large angles keep their accuracy.
struct RotaryValues {
  std::vector<float> cos, sin;
};
RotaryValues rotary_values(std::span<const float> angles);

// A table as graph inputs, from angles [rows][pairs] row-major.
RotaryTable rotary_table(Graph& graph, std::span<const float> angles, std::int64_t pairs);

// x [head_dim, heads, rows]: with p = pairs, dimensions i and i+p (i < p) rotate: a' = a·cos - b·sin, b' = b·cos + a·sin;
// dimensions from 2p on pass through. Precondition: 2p <= head_dim.
ggml_tensor* rotate(Graph& graph, ggml_tensor* x, const RotaryTable& table);

// Queries or keys as attention wants them, from x [head_dim, heads, rows], which may be a view: x / sqrt(mean(x²) + eps) · weight over the
// features of each head (`weight` may be nullptr for none), then rotate() unless `table` is nullptr.
ggml_tensor* normalised_heads(Graph& graph, ggml_tensor* x, ggml_tensor* weight, float eps, const RotaryTable* table);

}  // namespace tritium::ops
