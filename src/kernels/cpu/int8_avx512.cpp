#include <immintrin.h>
#include <cstdint>

namespace tritium::cpu {
namespace {

// The forms without a mask read an undefined vector, which GCC 12 warns about.
constexpr __mmask16 kAll = 0xFFFF;

struct Sixteen {
  using Bits = __m512i;
  __m512 v;

  static __mmask16 mask(std::int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }
  static Sixteen load(const float* p, std::int64_t count) { return {_mm512_maskz_loadu_ps(mask(count), p)}; }
  void store(float* p, std::int64_t count) const { _mm512_mask_storeu_ps(p, mask(count), v); }
  [[nodiscard]] Sixteen minus_twice(Sixteen b) const { return {_mm512_fnmadd_ps(_mm512_set1_ps(2.0f), b.v, v)}; }
  [[nodiscard]] Sixteen neighbours() const {
    const __m512 pairs = _mm512_add_ps(v, _mm512_maskz_permute_ps(kAll, v, 0xB1));
    const Sixteen sum{_mm512_add_ps(pairs, _mm512_maskz_permute_ps(kAll, pairs, 0x4E))};
    return sum.minus_twice({_mm512_maskz_permute_ps(kAll, v, 0x1B)});
  }
  [[nodiscard]] Sixteen quads() const {
    const __m512 pairs = _mm512_add_ps(v, _mm512_maskz_shuffle_f32x4(kAll, v, v, 0xB1));
    const Sixteen sum{_mm512_add_ps(pairs, _mm512_maskz_shuffle_f32x4(kAll, pairs, pairs, 0x4E))};
    return sum.minus_twice({_mm512_maskz_shuffle_f32x4(kAll, v, v, 0x1B)});
  }
  void magnitude_bits(Bits& top) const {
    top = _mm512_maskz_max_epi32(kAll, top, _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7FFFFFFF)));
  }
  void to_codes(float scale, std::uint8_t* out, std::int64_t count) const {
    const __m512 ratio = _mm512_maskz_div_ps(kAll, v, _mm512_set1_ps(scale));
    const __m128i codes = _mm512_maskz_cvtsepi32_epi8(kAll, _mm512_maskz_cvtps_epi32(kAll, ratio));
    _mm_mask_storeu_epi8(out, mask(count), _mm_xor_si128(codes, _mm_set1_epi8(static_cast<char>(0x80))));
  }
};
inline Sixteen operator+(Sixteen a, Sixteen b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Sixteen operator*(Sixteen a, float b) { return {_mm512_mul_ps(a.v, _mm512_set1_ps(b))}; }

struct Words {
  static constexpr int kLanes = 16;
  // The type of the instruction's own sums: with __m512i GCC 12 copies them to memory in every round.
  using Vector = int __attribute__((vector_size(64)));

  static Vector load(const void* p) { return (Vector)_mm512_loadu_si512(p); }
  static void store(void* p, Vector v) { _mm512_storeu_si512(p, (__m512i)v); }
  static Vector broadcast(int word) { return (Vector)_mm512_set1_epi32(word); }
  static Vector dot(Vector sum, Vector a, Vector b) { return (Vector)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b); }
  static void finish(const std::int32_t* sums, const std::int32_t* offset, const float* scale, const float* bias, float row, float* y) {
    const __m512i whole = _mm512_sub_epi32(_mm512_loadu_si512(sums), _mm512_loadu_si512(offset));
    const __m512 factor = _mm512_mul_ps(_mm512_loadu_ps(scale), _mm512_set1_ps(row));
    _mm512_storeu_ps(
        y, _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(kAll, whole), factor, bias != nullptr ? _mm512_loadu_ps(bias) : _mm512_setzero_ps()));
  }
};

}  // namespace
}  // namespace tritium::cpu

#include "kernels/cpu/int8_vector.h"

namespace tritium::cpu {
namespace {

constexpr int kRows = 14, kVectors = 2, kLanes = Words::kLanes, kColumns = kVectors * kLanes;

// 16 rows of 16 words, transposed.
inline void transpose(const std::int8_t* rows, std::int64_t stride, __mmask16 words, __m512i out[16]) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = _mm512_maskz_loadu_epi32(words, rows + i * stride);
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_maskz_unpacklo_epi32(kAll, a[i], a[i + 1]);
    b[i + 1] = _mm512_maskz_unpackhi_epi32(kAll, a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      a[i + 2 * j] = _mm512_maskz_unpacklo_epi64(0xFF, b[i + j], b[i + 2 + j]);
      a[i + 2 * j + 1] = _mm512_maskz_unpackhi_epi64(0xFF, b[i + j], b[i + 2 + j]);
    }
  // a[4·g + w]: of rows 4·g..4·g+3 the words w, w+4, w+8, w+12, one in each quarter.
  for (int w = 0; w < 4; ++w) {
    const __m512i low = _mm512_maskz_shuffle_i32x4(kAll, a[w], a[4 + w], 0x88),
                  low2 = _mm512_maskz_shuffle_i32x4(kAll, a[8 + w], a[12 + w], 0x88);
    const __m512i high = _mm512_maskz_shuffle_i32x4(kAll, a[w], a[4 + w], 0xDD),
                  high2 = _mm512_maskz_shuffle_i32x4(kAll, a[8 + w], a[12 + w], 0xDD);
    out[w] = _mm512_maskz_shuffle_i32x4(kAll, low, low2, 0x88);
    out[8 + w] = _mm512_maskz_shuffle_i32x4(kAll, low, low2, 0xDD);
    out[4 + w] = _mm512_maskz_shuffle_i32x4(kAll, high, high2, 0x88);
    out[12 + w] = _mm512_maskz_shuffle_i32x4(kAll, high, high2, 0xDD);
  }
}

void pack(const std::int8_t* rows, std::int64_t stride, std::int64_t depth, std::int8_t* out, std::int32_t* offsets) {
  const __m512i ones = _mm512_set1_epi8(1);
  for (int half = 0; half < kVectors; ++half) {
    __m512i sum = _mm512_setzero_si512();
    for (std::int64_t k = 0; k < depth; k += 4 * kLanes) {
      const std::int64_t words = depth - k >= 4 * kLanes ? kLanes : (depth - k) / 4;
      __m512i columns[kLanes];
      transpose(rows + half * kLanes * stride + k, stride, static_cast<__mmask16>((1 << words) - 1), columns);
      for (std::int64_t w = 0; w < words; ++w) {
        sum = _mm512_dpbusd_epi32(sum, ones, columns[w]);
        _mm512_storeu_si512(out + (k / 4 + w) * kColumns * 4 + half * kLanes * 4, columns[w]);
      }
    }
    std::int32_t* place = offsets + half * kLanes;
    _mm512_storeu_si512(place, _mm512_add_epi32(_mm512_loadu_si512(place), _mm512_maskz_slli_epi32(kAll, sum, 7)));
  }
}

}  // namespace

// 32 registers: 28 sums, two vectors of weights, one of activations.
const Int8Functions kInt8Avx512{"avx512_vnni", kRows, kColumns, quantize, pack, multiply<kRows, kVectors>, finish<kRows, kVectors>};

}  // namespace tritium::cpu
