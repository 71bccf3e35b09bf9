#include <immintrin.h>
#include <cstdint>

namespace tritium::cpu {
namespace {

struct Avx2 {
  static constexpr int kLanes = 8;
  static constexpr float kLowest = -127;
  __m256 value;
  static Avx2 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static void store(float* p, Avx2 v) { _mm256_storeu_ps(p, v.value); }
  static Avx2 broadcast(float v) { return {_mm256_set1_ps(v)}; }
  static Avx2 multiply_add(Avx2 a, Avx2 b, Avx2 c) { return {_mm256_fmadd_ps(a.value, b.value, c.value)}; }
  static Avx2 multiply(Avx2 a, Avx2 b) { return {_mm256_mul_ps(a.value, b.value)}; }
  static Avx2 add(Avx2 a, Avx2 b) { return {_mm256_add_ps(a.value, b.value)}; }
  static Avx2 subtract(Avx2 a, Avx2 b) { return {_mm256_sub_ps(a.value, b.value)}; }
  static Avx2 maximum(Avx2 a, Avx2 b) { return {_mm256_max_ps(a.value, b.value)}; }
  static Avx2 round(Avx2 v) { return {_mm256_round_ps(v.value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static Avx2 scale(Avx2 a, Avx2 n) {
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.value), _mm256_set1_epi32(127)), 23);
    return {_mm256_mul_ps(a.value, _mm256_castsi256_ps(power))};
  }
  static float first(Avx2 v) { return _mm256_cvtss_f32(v.value); }
  static float largest(Avx2 v) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v.value), _mm256_extractf128_ps(v.value, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }
  static float total(Avx2 v) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v.value), _mm256_extractf128_ps(v.value, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
};

}  // namespace
}  // namespace tritium::cpu

#define TRITIUM_ATTENTION_VECTOR Avx2
#define TRITIUM_ATTENTION_ELEMENT Float
#include "kernels/cpu/attention_tile.h"

namespace tritium::cpu {

// 16 registers: 12 accumulators, two vectors of keys, one query.
const AttentionFunctions kAttentionAvx2{4, 6, 2 * Avx2::kLanes, Float::convert, multiply<6, 2>, softmax};

}  // namespace tritium::cpu
