// The inner loops of int8_tile.h for instruction sets with products of 8-bit integers, in terms of two types of the including file:
//
//   Sixteen   16 float32 values: load and store (of the first ones alone), + and *, minus_twice(b) = this - 2·b rounded once, the stages
//             of the rotation among neighbours() and among quads(), magnitude_bits() to find the largest, to_codes()
//   Words     a vector of 32-bit sums: dot() adds products of four bytes each, finish() makes results of sums
#pragma once

#include "kernels/cpu/int8_tile.h"

namespace tritium::cpu {
namespace {

constexpr std::int64_t kSixteen = 16;

// b_j = a_0+a_1+a_2+a_3 - 2·a_{3-j}, the stage of the rotation (spec/weights.md §4.1) without its factor 1/2.
inline void quadruple(Sixteen& a0, Sixteen& a1, Sixteen& a2, Sixteen& a3) {
  const Sixteen sum = (a0 + a1) + (a2 + a3);
  const Sixteen b0 = sum.minus_twice(a3), b1 = sum.minus_twice(a2), b2 = sum.minus_twice(a1);
  a3 = sum.minus_twice(a0);
  a0 = b0;
  a1 = b1;
  a2 = b2;
}

// The group of released models, in registers.
void rotate_256(float* values) {
  Sixteen v[16];
  for (int i = 0; i < 16; ++i) v[i] = Sixteen::load(values + i * kSixteen, kSixteen).neighbours().quads();
  for (int i = 0; i < 16; i += 4) quadruple(v[i], v[i + 1], v[i + 2], v[i + 3]);
  for (int i = 0; i < 4; ++i) quadruple(v[i], v[i + 4], v[i + 8], v[i + 12]);
  for (int i = 0; i < 16; ++i) v[i].store(values + i * kSixteen, kSixteen);
}

void stage_of(float* values, std::int64_t group, std::int64_t stride) {
  for (std::int64_t first = 0; first < group; first += 4 * stride)
    for (std::int64_t i = 0; i < stride; i += kSixteen) {
      float* place = values + first + i;
      Sixteen a[4];
      for (int j = 0; j < 4; ++j) a[j] = Sixteen::load(place + j * stride, kSixteen);
      quadruple(a[0], a[1], a[2], a[3]);
      for (int j = 0; j < 4; ++j) a[j].store(place + j * stride, kSixteen);
    }
}

inline std::int64_t at_most_sixteen(std::int64_t count) { return count < kSixteen ? count : kSixteen; }

void rotate_groups(float* row, std::int64_t count, std::int64_t group) {
  if (group == 256) {
    for (std::int64_t i = 0; i < count; i += group) rotate_256(row + i);
    return;
  }
  for (std::int64_t i = 0; i < count; i += kSixteen) {
    const std::int64_t some = at_most_sixteen(count - i);  // groups of 4 may end anywhere
    const Sixteen x = Sixteen::load(row + i, some).neighbours();
    (group > 4 ? x.quads() : x).store(row + i, some);
  }
  for (std::int64_t i = 0; i < count; i += group)
    for (std::int64_t stride = kSixteen; stride < group; stride *= 4) stage_of(row + i, group, stride);
}

float quantize(float* row, std::int64_t count, std::int64_t group, float factor, std::uint8_t* out) {
  if (group > 0) rotate_groups(row, count, group);
  // As integers the bits of magnitudes are in the order of their values, with those that are not finite at the end.
  Sixteen::Bits top{};
  for (std::int64_t i = 0; i < count; i += kSixteen) {
    const std::int64_t some = at_most_sixteen(count - i);
    const Sixteen x = Sixteen::load(row + i, some) * factor;
    x.store(row + i, some);
    x.magnitude_bits(top);
  }
  std::int32_t lanes[kSixteen], bits = 0;
  __builtin_memcpy(lanes, &top, sizeof(lanes));
  for (const std::int32_t lane : lanes) bits = lane > bits ? lane : bits;
  if (bits >= 0x7F800000) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = 128;
    return __builtin_nanf("");
  }
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof(largest));
  const float share = largest / 127.0f, scale = share > 1e-30f ? share : 1e-30f;
  for (std::int64_t i = 0; i < count; i += kSixteen) {
    const std::int64_t some = at_most_sixteen(count - i);
    Sixteen::load(row + i, some).to_codes(scale, out + i, some);
  }
  return scale;
}

// Rows times Vectors sums stay in registers.
template <int Rows, int Vectors>
void multiply(const std::uint8_t* a, const std::int8_t* b, std::int64_t depth, std::int32_t* sums, bool add) {
  constexpr int kColumns = Vectors * Words::kLanes;
  Words::Vector total[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) total[r][v] = add ? Words::load(sums + r * kColumns + v * Words::kLanes) : Words::Vector{};
  for (std::int64_t k = 0; k < depth; k += 4, a += Rows * 4, b += kColumns * 4) {
    Words::Vector right[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) right[v] = Words::load(b + v * Words::kLanes * 4);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      int word;
      __builtin_memcpy(&word, a + r * 4, sizeof(word));
      const Words::Vector left = Words::broadcast(word);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) total[r][v] = Words::dot(total[r][v], left, right[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) Words::store(sums + r * kColumns + v * Words::kLanes, total[r][v]);
}

template <int Rows, int Vectors>
void finish(const std::int32_t* sums, const float* scales, const Int8Columns& columns, float* y, std::int64_t stride) {
  constexpr int kColumns = Vectors * Words::kLanes;
  for (int v = 0; v < kColumns; v += Words::kLanes)
    for (int r = 0; r < Rows; ++r)
      Words::finish(sums + r * kColumns + v, columns.offset + v, columns.scale + v, columns.bias != nullptr ? columns.bias + v : nullptr,
                    scales[r], y + r * stride + v);
}

}  // namespace
}  // namespace tritium::cpu
