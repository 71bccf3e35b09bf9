#include "kernels/cpu/four_bit_tile.h"

#include <immintrin.h>

namespace tritium::cpu {
namespace {

// The forms without a mask read an undefined vector, which GCC 12 warns about.
constexpr __mmask16 kAll = 0xFFFF;

inline float scale_of(const FourBitRow& row, std::int64_t group) {
  if (row.scale_codes != nullptr) return row.scale_table[row.scale_codes[group]];
  return row.scales != nullptr ? row.scales[group] : 1.0f;
}

inline __m512i integers_of(__m512 values) {
  const __m512i nearest = _mm512_maskz_cvtps_epi32(kAll, values);
  return _mm512_maskz_min_epi32(kAll, _mm512_maskz_max_epi32(kAll, nearest, _mm512_set1_epi32(-127)), _mm512_set1_epi32(127));
}

// float32 to bfloat16 in the low halves of 32-bit words, rounded to nearest even; all values are finite.
inline __m512i halves_of(__m512 values) {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i even = _mm512_and_si512(_mm512_maskz_srli_epi32(kAll, bits, 16), _mm512_set1_epi32(1));
  return _mm512_maskz_srli_epi32(kAll, _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), even), 16);
}

void to_int8(const FourBitRow& row, std::int64_t count, std::int8_t* out) {
  const __m512 values = _mm512_loadu_ps(row.table);
  const __m128i mask = _mm_set1_epi16(15);
  const std::uint8_t* codes = row.codes;
  for (std::int64_t first = 0; first < count; first += row.group) {
    const __m512 scaled = _mm512_mul_ps(values, _mm512_set1_ps(scale_of(row, first / row.group)));
    const __m128i table = _mm512_maskz_cvtsepi32_epi8(kAll, integers_of(scaled));
    for (std::int64_t i = 0; i < row.group; i += 16, codes += 8, out += 16) {
      const __m128i words = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
      const __m128i low = _mm_and_si128(words, mask), high = _mm_srli_epi16(words, 4);
      const __m128i index = row.low_first ? _mm_or_si128(low, _mm_slli_epi16(high, 8)) : _mm_or_si128(high, _mm_slli_epi16(low, 8));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(table, index));
    }
  }
}

void to_bf16(const FourBitRow& row, std::int64_t count, std::uint16_t* out) {
  const __m512 values = _mm512_loadu_ps(row.table);
  const __m256i mask = _mm256_set1_epi32(15);
  const std::uint8_t* codes = row.codes;
  for (std::int64_t first = 0; first < count; first += row.group) {
    __m512 scaled = _mm512_mul_ps(values, _mm512_set1_ps(scale_of(row, first / row.group)));
    if (row.integers) scaled = _mm512_maskz_cvtepi32_ps(kAll, integers_of(scaled));
    const __m256i table = _mm512_maskz_cvtepi32_epi16(kAll, halves_of(scaled));
    for (std::int64_t i = 0; i < row.group; i += 16, codes += 8, out += 16) {
      const __m256i words = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
      const __m256i low = _mm256_and_si256(words, mask), high = _mm256_srli_epi32(words, 4);
      const __m256i index =
          row.low_first ? _mm256_or_si256(low, _mm256_slli_epi32(high, 16)) : _mm256_or_si256(high, _mm256_slli_epi32(low, 16));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutexvar_epi16(index, table));
    }
  }
}

}  // namespace

const FourBitFunctions kFourBitAvx512{to_int8, to_bf16};

}  // namespace tritium::cpu
