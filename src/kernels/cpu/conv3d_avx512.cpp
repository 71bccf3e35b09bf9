#include <immintrin.h>

namespace tritium::cpu {
namespace {

struct Avx512 {
  static constexpr int kLanes = 16;
  __m512 value;
  static Avx512 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Avx512 broadcast(float v) { return {_mm512_set1_ps(v)}; }
  static Avx512 multiply_add(Avx512 a, Avx512 b, Avx512 c) { return {_mm512_fmadd_ps(a.value, b.value, c.value)}; }
  static void store(float* p, Avx512 v) { _mm512_storeu_ps(p, v.value); }
};

}  // namespace
}  // namespace tritium::cpu

#define TRITIUM_CONV3D_VECTOR Avx512
#include "kernels/cpu/conv3d_tile.h"

namespace tritium::cpu {

// 32 registers: 28 accumulators, two vectors of weights, one input.
const Conv3dFunctions kConv3dAvx512{14, 2 * Avx512::kLanes, multiply<14, 2>};

}  // namespace tritium::cpu
