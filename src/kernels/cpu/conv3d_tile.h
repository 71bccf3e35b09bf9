// The inner product of the convolution; compiled once per instruction set, see simd.h.
#pragma once

#include <cstdint>

namespace tritium::cpu {

inline constexpr std::int64_t kConv3dDepth = 256;                    // terms that are added at a time
inline constexpr std::int64_t kConv3dRowStride = kConv3dDepth + 16;  // an odd number of cache lines spreads the rows

// sums[rows][columns] += a[rows][depth] · b[depth][columns], depth <= kConv3dDepth; rows of `a` are kConv3dRowStride apart, `b` and
// `sums` are dense.
struct Conv3dFunctions {
  std::int64_t rows, columns;
  void (*run)(const float* a, const float* b, std::int64_t depth, float* sums);
};

extern const Conv3dFunctions kConv3dGeneric, kConv3dAvx2, kConv3dAvx512;

}  // namespace tritium::cpu

#ifdef TRITIUM_CONV3D_VECTOR

namespace tritium::cpu {
namespace {

using Vector = TRITIUM_CONV3D_VECTOR;  // load, store, broadcast, multiply_add, kLanes

// kRows x kVectors accumulators stay in registers over the whole depth.
template <int kRows, int kVectors>
void multiply(const float* a, const float* b, std::int64_t depth, float* sums) {
  constexpr int kColumns = kVectors * Vector::kLanes;
  Vector total[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) total[r][v] = Vector::load(sums + r * kColumns + v * Vector::kLanes);
  for (std::int64_t k = 0; k < depth; ++k, b += kColumns) {
    Vector weights[kVectors];
    for (int v = 0; v < kVectors; ++v) weights[v] = Vector::load(b + v * Vector::kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Vector value = Vector::broadcast(a[r * kConv3dRowStride + k]);
      for (int v = 0; v < kVectors; ++v) total[r][v] = Vector::multiply_add(value, weights[v], total[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) Vector::store(sums + r * kColumns + v * Vector::kLanes, total[r][v]);
}

}  // namespace
}  // namespace tritium::cpu

#endif
