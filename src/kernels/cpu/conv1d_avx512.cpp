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
  static void store_part(float* p, Avx512 v, int count) { _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), v.value); }
};

}  // namespace
}  // namespace tritium::cpu

#define TRITIUM_CONV1D_VECTOR Avx512
#include "kernels/cpu/conv1d_tile.h"

namespace tritium::cpu {
namespace {

// 32 registers: 24 accumulators leave room for the inputs and a weight.
void run(const Conv1dTile& tile, std::int64_t rows) {
  if (rows == 8)
    accumulate_all<8, 3>(tile);
  else if (rows == 4)
    accumulate_all<4, 6>(tile);
  else if (rows == 2)
    accumulate_all<2, 8>(tile);
  else
    accumulate_all<1, 8>(tile);
}

}  // namespace

const Conv1dFunctions kConv1dAvx512{8, run};

}  // namespace tritium::cpu
