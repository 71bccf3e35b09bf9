// The ConvRot rotation of activations (spec/weights.md §4.1), the counterpart of rotated weights.
#pragma once

#include "device/graph.h"

namespace tritium::ops {

// Every consecutive group of `group` features of x [features, rows] times the Hadamard-like matrix H. float32.
// Precondition: is_rotation_group(group) and it divides the features.
ggml_tensor* rotate_groups(Graph& graph, ggml_tensor* x, std::int64_t group);

}  // namespace tritium::ops
