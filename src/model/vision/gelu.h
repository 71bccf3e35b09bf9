// The two activations of the vision tower, both exact to float32 (the CPU backend of ggml has its own tanh form in a 16-bit table).
#pragma once

#include "device/graph.h"

namespace tritium {

// x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))), in the blocks.
ggml_tensor* gelu_tanh(Graph& graph, ggml_tensor* x);

// x/2·(1 + erf(x/√2)), in the mergers.
ggml_tensor* gelu_erf(Graph& graph, ggml_tensor* x);

}  // namespace tritium
