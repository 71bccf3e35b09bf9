// Operations on one row of activations at a time, in one pass over memory; compiled once per instruction set, see simd.h.
#pragma once

#include <cstdint>

namespace tritium::cpu {

struct RowFunctions {
  // y = x / sqrt(mean(x²) + eps) · weight · (1 + scale) + shift; without weight, or without scale and shift, where these are null.
  void (*modulated_norm)(const float* x, const float* weight, const float* scale, const float* shift, std::int64_t count, float eps,
                         float* y);
  // y = x + gate · z
  void (*gated_add)(const float* x, const float* z, const float* gate, std::int64_t count, float* y);
  // Of n = x / sqrt(mean(x²) + eps) · weight (eps < 0: n = x; weight may be null), the first 2·pairs values rotated by angles given as
  // cos and sin: a' = a·cos - b·sin, b' = b·cos + a·sin for values i and i + pairs; the others as they are.
  void (*norm_rotate)(const float* x, const float* weight, const float* cos, const float* sin, std::int64_t pairs, std::int64_t count,
                      float eps, float* y);
  // Whether all values are finite.
  bool (*finite)(const float* x, std::int64_t count);
  // To bfloat16, rounded to nearest even; what is not a number stays so. Integers of 8 bits are exact.
  void (*to_bf16)(const float* x, std::int64_t count, std::uint16_t* y);
  void (*integers_to_bf16)(const std::int8_t* x, std::int64_t count, std::uint16_t* y);
};

extern const RowFunctions kRowsGeneric, kRowsAvx2, kRowsAvx512;

}  // namespace tritium::cpu

#ifdef TRITIUM_ROW_FUNCTIONS

namespace tritium::cpu {
namespace {

constexpr int kLanes = 16;
constexpr std::int64_t kBlock = 512;  // squares that are added up in float32

// Sums in a fixed order that suits every width of vector.
double sum_of_squares(const float* x, std::int64_t count) {
  double total = 0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t end = first + kBlock < count ? first + kBlock : count, whole = first + (end - first) / kLanes * kLanes;
    float lanes[kLanes] = {};
    for (std::int64_t i = first; i < whole; i += kLanes)
      for (int l = 0; l < kLanes; ++l) lanes[l] += x[i + l] * x[i + l];
    for (std::int64_t i = whole; i < end; ++i) lanes[i - whole] += x[i] * x[i];
    for (int width = kLanes / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
    total += static_cast<double>(lanes[0]);
  }
  return total;
}

float norm_factor(const float* x, std::int64_t count, float eps) {
  return 1.0f / __builtin_sqrtf(static_cast<float>(sum_of_squares(x, count) / static_cast<double>(count)) + eps);
}

void modulated_norm(const float* __restrict x, const float* __restrict weight, const float* __restrict scale, const float* __restrict shift,
                    std::int64_t count, float eps, float* __restrict y) {
  const float factor = norm_factor(x, count, eps);
  if (scale != nullptr && weight != nullptr)
    for (std::int64_t i = 0; i < count; ++i) {
      const float n = x[i] * factor * weight[i];
      y[i] = n + n * scale[i] + shift[i];
    }
  else if (scale != nullptr)
    for (std::int64_t i = 0; i < count; ++i) {
      const float n = x[i] * factor;
      y[i] = n + n * scale[i] + shift[i];
    }
  else if (weight != nullptr)
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor * weight[i];
  else
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor;
}

void gated_add(const float* __restrict x, const float* __restrict z, const float* __restrict gate, std::int64_t count,
               float* __restrict y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] + gate[i] * z[i];
}

void norm_rotate(const float* __restrict x, const float* __restrict weight, const float* __restrict cos, const float* __restrict sin,
                 std::int64_t pairs, std::int64_t count, float eps, float* __restrict y) {
  const float factor = eps < 0 ? 1.0f : norm_factor(x, count, eps);
  if (weight != nullptr)
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor * weight[i];
  else
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor;
  float* __restrict second = y + pairs;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float a = y[i], b = second[i];
    y[i] = a * cos[i] - b * sin[i];
    second[i] = b * cos[i] + a * sin[i];
  }
}

bool finite(const float* x, std::int64_t count) {
  // Not finite are the values whose exponent has all bits.
  unsigned largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    unsigned bits;
    __builtin_memcpy(&bits, x + i, sizeof(bits));
    bits &= 0x7FFFFFFFu;
    largest = bits > largest ? bits : largest;
  }
  return largest < 0x7F800000u;
}

inline unsigned bits_of(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

void to_bf16(const float* __restrict x, std::int64_t count, std::uint16_t* __restrict y) {
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned bits = bits_of(x[i]), rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16, kept = bits >> 16 | 0x40u;
    y[i] = static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? kept : rounded);
  }
}

void integers_to_bf16(const std::int8_t* __restrict x, std::int64_t count, std::uint16_t* __restrict y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<std::uint16_t>(bits_of(static_cast<float>(x[i])) >> 16);
}

}  // namespace

const RowFunctions TRITIUM_ROW_FUNCTIONS{modulated_norm, gated_add, norm_rotate, finite, to_bf16, integers_to_bf16};

}  // namespace tritium::cpu

#endif
