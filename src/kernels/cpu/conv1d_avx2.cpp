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
  static void store_part(float* p, Avx2 v, int count) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes), v.value);
  }
};

}  // namespace
}  // namespace tritium::cpu

#define TRITIUM_CONV1D_VECTOR Avx2
#include "kernels/cpu/conv1d_tile.h"

namespace tritium::cpu {
namespace {

// 16 registers: 12 accumulators leave room for the inputs and a weight.
void run(const Conv1dTile& tile, std::int64_t rows) {
  if (rows == 4)
    accumulate_all<4, 3>(tile);
  else if (rows == 2)
    accumulate_all<2, 5>(tile);
  else
    accumulate_all<1, 8>(tile);
}

}  // namespace

const Conv1dFunctions kConv1dAvx2{4, run};

}  // namespace tritium::cpu
