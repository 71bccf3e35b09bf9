// The Snake activation of the audio encoder: x + sin(frequency·x)²·inverse_magnitude, value by value (spec/vae.md §2.3).
#pragma once

#include "kernels/cpu/simd.h"

#include <cstdint>

namespace tritium::cpu {

// x, y [channels][length] and the parameters [channels], all float32; x and y may be the same memory.
struct PointwiseSnakeArguments {
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t length = 0, channels = 0;
  const float* frequency = nullptr;
  const float* inverse_magnitude = nullptr;
};

// Pieces of work that can be computed independently.
std::int64_t pointwise_snake_units(std::int64_t length, std::int64_t channels);

// Computes the units with index = thread (mod threads). The result has the same bits for every number of threads and every instruction
// set. Sine: absolute error at most 1.5e-7.
void pointwise_snake(const PointwiseSnakeArguments& arguments, int thread, int threads, Isa isa);

}  // namespace tritium::cpu
