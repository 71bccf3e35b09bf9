// The inner tile of the convolution; compiled once per instruction set, see simd.h.
#pragma once

#include <cstdint>

namespace tritium::cpu {

// Computes `rows` output channels (a size that conv1d_rows gives) for `samples` output samples from x that is already padded: output
// sample t reads x[i·x_stride + t + k·dilation]. x must be readable up to the end of the last full tile.
struct Conv1dTile {
  const float* x;
  std::int64_t x_stride;
  const float* w;         // of the first of the output channels
  std::int64_t w_stride;  // in·kernel
  const float* bias;      // of the first of the output channels, or nullptr
  float* y;
  std::int64_t y_stride;
  std::int64_t in, kernel, dilation, samples;
};

struct Conv1dFunctions {
  std::int64_t most_rows;  // a power of two; all smaller powers are possible too
  void (*run)(const Conv1dTile& tile, std::int64_t rows);
};

inline constexpr std::int64_t kConv1dWidestTile = 128;  // samples; of any instruction set

extern const Conv1dFunctions kConv1dGeneric, kConv1dAvx2, kConv1dAvx512;

}  // namespace tritium::cpu

#ifdef TRITIUM_CONV1D_VECTOR

namespace tritium::cpu {
namespace {

using Vector = TRITIUM_CONV1D_VECTOR;  // load, store, store_part, broadcast, multiply_add, kLanes

// kRows x kVectors accumulators stay in registers over the whole sum.
template <int kRows, int kVectors>
void accumulate(const Conv1dTile& tile, std::int64_t first) {
  Vector sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = Vector::broadcast(tile.bias != nullptr ? tile.bias[r] : 0.0f);
  const float* w = tile.w;
  for (std::int64_t i = 0; i < tile.in; ++i) {
    const float* x = tile.x + i * tile.x_stride + first;
    for (std::int64_t k = 0; k < tile.kernel; ++k, ++w, x += tile.dilation) {
      Vector values[kVectors];
      for (int v = 0; v < kVectors; ++v) values[v] = Vector::load(x + v * Vector::kLanes);
      for (int r = 0; r < kRows; ++r) {
        const Vector weight = Vector::broadcast(w[r * tile.w_stride]);
        for (int v = 0; v < kVectors; ++v) sums[r][v] = Vector::multiply_add(weight, values[v], sums[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = first + v * Vector::kLanes, left = tile.samples - at;
      float* y = tile.y + r * tile.y_stride + at;
      if (left >= Vector::kLanes)
        Vector::store(y, sums[r][v]);
      else if (left > 0)
        Vector::store_part(y, sums[r][v], static_cast<int>(left));
    }
}

template <int kRows, int kVectors>
void accumulate_all(const Conv1dTile& tile) {
  for (std::int64_t first = 0; first < tile.samples; first += kVectors * Vector::kLanes) accumulate<kRows, kVectors>(tile, first);
}

}  // namespace
}  // namespace tritium::cpu

#endif
