// For the AVX-512 variants of attention_tile.h only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace tritium::cpu {
namespace {

struct Avx512 {
  static constexpr int kLanes = 16;
  static constexpr float kLowest = -200;
  // The forms without a mask read an undefined vector, which GCC 12 warns about.
  static constexpr __mmask16 kAll = 0xFFFF;
  __m512 value;
  static Avx512 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static void store(float* p, Avx512 v) { _mm512_storeu_ps(p, v.value); }
  static Avx512 broadcast(float v) { return {_mm512_set1_ps(v)}; }
  static Avx512 multiply_add(Avx512 a, Avx512 b, Avx512 c) { return {_mm512_fmadd_ps(a.value, b.value, c.value)}; }
  static Avx512 multiply(Avx512 a, Avx512 b) { return {_mm512_mul_ps(a.value, b.value)}; }
  static Avx512 add(Avx512 a, Avx512 b) { return {_mm512_add_ps(a.value, b.value)}; }
  static Avx512 subtract(Avx512 a, Avx512 b) { return {_mm512_sub_ps(a.value, b.value)}; }
  static Avx512 maximum(Avx512 a, Avx512 b) { return {_mm512_maskz_max_ps(kAll, a.value, b.value)}; }
  static Avx512 round(Avx512 v) { return {_mm512_maskz_roundscale_ps(kAll, v.value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static Avx512 scale(Avx512 a, Avx512 n) { return {_mm512_maskz_scalef_ps(kAll, a.value, n.value)}; }
  static float first(Avx512 v) { return _mm512_cvtss_f32(v.value); }
  static float largest(Avx512 v) {
    Avx512 x = maximum(v, {_mm512_maskz_shuffle_f32x4(kAll, v.value, v.value, 0x4E)});
    x = maximum(x, {_mm512_maskz_shuffle_f32x4(kAll, x.value, x.value, 0xB1)});
    x = maximum(x, {_mm512_maskz_permute_ps(kAll, x.value, 0x4E)});
    return first(maximum(x, {_mm512_maskz_permute_ps(kAll, x.value, 0xB1)}));
  }
  static float total(Avx512 v) {
    Avx512 x = add(v, {_mm512_maskz_shuffle_f32x4(kAll, v.value, v.value, 0x4E)});
    x = add(x, {_mm512_maskz_shuffle_f32x4(kAll, x.value, x.value, 0xB1)});
    x = add(x, {_mm512_maskz_permute_ps(kAll, x.value, 0x4E)});
    return first(add(x, {_mm512_maskz_permute_ps(kAll, x.value, 0xB1)}));
  }
};

}  // namespace
}  // namespace tritium::cpu
