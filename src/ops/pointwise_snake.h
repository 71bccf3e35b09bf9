// The Snake activation of the audio encoder (spec/vae.md §2.3); the decoder's alias-free one is in ops/snake.h.
#pragma once

#include "device/graph.h"

namespace tritium::ops {

// Per channel [channels] float32: frequency = alpha, inverse_magnitude = 1 / (alpha + 1e-9).
struct PointwiseSnake {
  ggml_tensor* frequency = nullptr;
  ggml_tensor* inverse_magnitude = nullptr;
};

// x [length, channels] -> same: x + sin(frequency·x)²·inverse_magnitude.
ggml_tensor* pointwise_snake(Graph& graph, const PointwiseSnake& layer, ggml_tensor* x);

}  // namespace tritium::ops
