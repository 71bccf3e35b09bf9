// The alias-free SnakeBeta activation of the audio decoder (spec/vae.md §2.5).
#pragma once

#include "device/graph.h"

#include <array>

namespace tritium::ops {

// Per-channel parameters already exponentiated: frequency = e^alpha, inverse_magnitude = 1 / (e^beta + 1e-9); both [channels] float32.
// `up` [7, 2] and `down` [12, 1] come from the functions below.
struct AliasFreeSnake {
  ggml_tensor* frequency = nullptr;
  ggml_tensor* inverse_magnitude = nullptr;
  ggml_tensor* up = nullptr;
  ggml_tensor* down = nullptr;
};

// Filter bank of the 2x upsampling as two 7-tap phases, from the stored 12-tap filter: row-major [2][7].
std::vector<float> upsampling_phases(std::span<const float> filter);

// x [length, channels] -> same: 2x up, x + sin(frequency·x)²·inverse_magnitude, 2x down; edges replicated.
ggml_tensor* alias_free_snake(Graph& graph, const AliasFreeSnake& layer, ggml_tensor* x);

}  // namespace tritium::ops
