// Body of the activation for one block of one channel; compiled once per instruction set, see simd.h.
// Only multiplications and additions in a fixed order: every instruction set gives the same bits.
#pragma once

#include <cstdint>

namespace tritium::cpu {

inline constexpr int kSnakeBlock = 512;  // samples
inline constexpr int kSnakeReach = 3;    // pairs of upsampled values that a sample needs on either side of its own
inline constexpr int kSnakePairs = kSnakeBlock + 2 * kSnakeReach;
inline constexpr int kSnakeTaps = 7;  // of one upsampling phase

// The surroundings of one block. Index j of `even` and `odd` stands for the upsampled values 2p and 2p+1 of sample
// p = first - kSnakeReach + j, and x[j] .. x[j+6] are the samples p-3 .. p+3 they are made of.
struct SnakeScratch {
  alignas(64) float x[kSnakePairs + kSnakeTaps - 1];
  alignas(64) float even[kSnakePairs];
  alignas(64) float odd[kSnakePairs];
};

// Fills even and odd from x.
using SnakeUpsample = void (*)(SnakeScratch& scratch, int pairs, const float* up);
// Largest absolute value of even and odd; NaN counts as larger than any number.
using SnakeLargest = float (*)(const SnakeScratch& scratch, int pairs);
// v + sin(frequency·v)²·inverse_magnitude for even and odd; arguments of the sine up to kSnakeMaxArgument.
using SnakeActivate = void (*)(SnakeScratch& scratch, int pairs, float frequency, float inverse_magnitude);
// The `count` samples of the block from even and odd.
using SnakeDownsample = void (*)(const SnakeScratch& scratch, int count, const float* down, float* y);

struct SnakeFunctions {
  SnakeUpsample upsample;
  SnakeLargest largest;
  SnakeActivate activate;
  SnakeDownsample downsample;
};

// The argument reduction below is exact up to here; beyond, the caller takes the library's sine.
inline constexpr float kSnakeMaxArgument = 8192.0f;

extern const SnakeFunctions kSnakeGeneric, kSnakeAvx2, kSnakeAvx512;

}  // namespace tritium::cpu

#ifdef TRITIUM_SNAKE_FUNCTIONS

namespace tritium::cpu {
namespace {

// sin(z)²: z is reduced to [-π/2, π/2] by multiples of π, which change only the sign. π is split into three parts of few bits, so that
// the products with a count below 2^13 are exact; polynomial of degree 9 with error 5e-9.
inline float sine_squared(float z) {
  constexpr float kRound = 12582912.0f;  // 1.5·2^23: adding it rounds to an integer
  const float count = (z * 0.318309886f + kRound) - kRound;
  float r = z - count * 3.140625f;
  r = r - count * 9.67502593994140625e-4f;
  r = r - count * 1.509957990978376432e-7f;
  const float s = r * r;
  float p = 2.5999032626536253e-06f;
  p = p * s - 0.00019806547107906671f;
  p = p * s + 0.008333016355440119f;
  p = p * s - 0.1666665705859005f;
  const float sine = r + r * s * p;
  return sine * sine;
}

void upsample(SnakeScratch& scratch, int pairs, const float* up) {
  float e[kSnakeTaps], o[kSnakeTaps];
  for (int t = 0; t < kSnakeTaps; ++t) {
    e[t] = up[t];
    o[t] = up[kSnakeTaps + t];
  }
  const float* __restrict x = scratch.x;
  float* __restrict even = scratch.even;
  float* __restrict odd = scratch.odd;
  for (int j = 0; j < pairs; ++j) {
    even[j] = e[0] * x[j] + e[1] * x[j + 1] + e[2] * x[j + 2] + e[3] * x[j + 3] + e[4] * x[j + 4] + e[5] * x[j + 5] + e[6] * x[j + 6];
    odd[j] = o[0] * x[j] + o[1] * x[j + 1] + o[2] * x[j + 2] + o[3] * x[j + 3] + o[4] * x[j + 4] + o[5] * x[j + 5] + o[6] * x[j + 6];
  }
}

float largest(const SnakeScratch& scratch, int pairs) {
  std::int32_t top = 0;  // non-negative floats order like their bits
  const float* const phases[] = {scratch.even, scratch.odd};
  for (const float* values : phases)
    for (int j = 0; j < pairs; ++j) {
      const std::int32_t bits = __builtin_bit_cast(std::int32_t, values[j]) & 0x7fffffff;
      top = bits > top ? bits : top;
    }
  return __builtin_bit_cast(float, top);
}

void activate(SnakeScratch& scratch, int pairs, float frequency, float inverse_magnitude) {
  float* const phases[] = {scratch.even, scratch.odd};
  for (float* values : phases)
    for (int j = 0; j < pairs; ++j) values[j] += sine_squared(frequency * values[j]) * inverse_magnitude;
}

void downsample(const SnakeScratch& scratch, int count, const float* down, float* __restrict y) {
  float f[12];
  for (int k = 0; k < 12; ++k) f[k] = down[k];
  const float* __restrict even = scratch.even;
  const float* __restrict odd = scratch.odd;
  // y[i] = sum of f[k]·s[2i + k - 5]: even k meets odd values from pair i-3 on, odd k even values from pair i-2 on.
  for (int i = 0; i < count; ++i)
    y[i] = f[0] * odd[i] + f[1] * even[i + 1] + f[2] * odd[i + 1] + f[3] * even[i + 2] + f[4] * odd[i + 2] + f[5] * even[i + 3] +
           f[6] * odd[i + 3] + f[7] * even[i + 4] + f[8] * odd[i + 4] + f[9] * even[i + 5] + f[10] * odd[i + 5] + f[11] * even[i + 6];
}

}  // namespace

const SnakeFunctions TRITIUM_SNAKE_FUNCTIONS{upsample, largest, activate, downsample};

}  // namespace tritium::cpu

#endif
