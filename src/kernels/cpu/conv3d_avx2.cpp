#include <immintrin.h>

namespace tritium::cpu {
namespace {

struct Avx2 {
  static constexpr int kLanes = 8;
  __m256 value;
  static Avx2 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Avx2 broadcast(float v) { return {_mm256_set1_ps(v)}; }
  static Avx2 multiply_add(Avx2 a, Avx2 b, Avx2 c) { return {_mm256_fmadd_ps(a.value, b.value, c.value)}; }
  static void store(float* p, Avx2 v) { _mm256_storeu_ps(p, v.value); }
};

}  // namespace
}  // namespace tritium::cpu

#define TRITIUM_CONV3D_VECTOR Avx2
#include "kernels/cpu/conv3d_tile.h"

namespace tritium::cpu {

// 16 registers: 12 accumulators, two vectors of weights, one input.
const Conv3dFunctions kConv3dAvx2{6, 2 * Avx2::kLanes, multiply<6, 2>};

}  // namespace tritium::cpu
