// The alias-free SnakeBeta activation (spec/vae.md §2.5) in one pass over the signal, without storing the doubled signal.
#pragma once

#include "kernels/cpu/simd.h"

#include <cstdint>

namespace tritium::cpu {

// All pointers to float32; x and y are [channels][length] and must not overlap.
struct SnakeArguments {
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t length = 0, channels = 0;
  const float* frequency = nullptr;          // [channels]
  const float* inverse_magnitude = nullptr;  // [channels]
  const float* up = nullptr;                 // [2][7], see ops/snake.h
  const float* down = nullptr;               // [12]
};

// Pieces of work that can be computed independently.
std::int64_t snake_units(std::int64_t length, std::int64_t channels);

// Computes the units with index = thread (mod threads). The result has the same bits for every number of threads and every
// instruction set. Sine: absolute error at most 1.5e-7.
void alias_free_snake(const SnakeArguments& arguments, int thread, int threads, Isa isa);

}  // namespace tritium::cpu
