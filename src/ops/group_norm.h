// Group normalisation of channels-last frames (spec/vae.md §1.3).
#pragma once

#include "device/graph.h"

namespace tritium::ops {

// x [channels, width, height, frames] -> same, contiguous: (x - mean) / sqrt(variance + eps) · weight + bias. Mean and biased variance are
// taken for each frame and each of `groups` equal groups of channels over all positions. weight and bias [channels].
ggml_tensor* group_norm(Graph& graph, ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias, int groups, float eps);

}  // namespace tritium::ops
