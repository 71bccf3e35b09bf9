#include "kernels/cpu/int8_tile.h"

#include <immintrin.h>

namespace tritium::cpu {
namespace {

constexpr int kRows = 14, kVectors = 2, kLanes = 16, kColumns = kVectors * kLanes;
// The forms without a mask read an undefined vector, which GCC 12 warns about.
constexpr __mmask16 kAll = 0xFFFF;

// The type of the instruction's own sums: with __m512i GCC 12 copies them to memory in every round.
using Words = int __attribute__((vector_size(64)));

// b_j = a_0+a_1+a_2+a_3 - 2·a_{3-j}, the stage of the rotation (spec/weights.md §4.1) without its factor 1/2.
inline __m512 minus_twice(__m512 sum, __m512 value) { return _mm512_fnmadd_ps(_mm512_set1_ps(2.0f), value, sum); }

// Among neighbours.
inline __m512 stage_1(__m512 x) {
  const __m512 pairs = _mm512_add_ps(x, _mm512_maskz_permute_ps(kAll, x, 0xB1));
  const __m512 sum = _mm512_add_ps(pairs, _mm512_maskz_permute_ps(kAll, pairs, 0x4E));
  return minus_twice(sum, _mm512_maskz_permute_ps(kAll, x, 0x1B));
}
// Among values 4 apart.
inline __m512 stage_4(__m512 x) {
  const __m512 pairs = _mm512_add_ps(x, _mm512_maskz_shuffle_f32x4(kAll, x, x, 0xB1));
  const __m512 sum = _mm512_add_ps(pairs, _mm512_maskz_shuffle_f32x4(kAll, pairs, pairs, 0x4E));
  return minus_twice(sum, _mm512_maskz_shuffle_f32x4(kAll, x, x, 0x1B));
}

inline void quadruple(__m512& a0, __m512& a1, __m512& a2, __m512& a3) {
  const __m512 sum = _mm512_add_ps(_mm512_add_ps(a0, a1), _mm512_add_ps(a2, a3));
  const __m512 b0 = minus_twice(sum, a3), b1 = minus_twice(sum, a2), b2 = minus_twice(sum, a1);
  a3 = minus_twice(sum, a0);
  a0 = b0;
  a1 = b1;
  a2 = b2;
}

// The group of released models, in registers.
void rotate_256(float* values) {
  __m512 v[16];
  for (int i = 0; i < 16; ++i) v[i] = stage_4(stage_1(_mm512_loadu_ps(values + i * kLanes)));
  for (int i = 0; i < 16; i += 4) quadruple(v[i], v[i + 1], v[i + 2], v[i + 3]);
  for (int i = 0; i < 4; ++i) quadruple(v[i], v[i + 4], v[i + 8], v[i + 12]);
  for (int i = 0; i < 16; ++i) _mm512_storeu_ps(values + i * kLanes, v[i]);
}

void stage_of(float* values, std::int64_t group, std::int64_t stride) {
  for (std::int64_t first = 0; first < group; first += 4 * stride)
    for (std::int64_t i = 0; i < stride; i += kLanes) {
      float* place = values + first + i;
      __m512 a0 = _mm512_loadu_ps(place), a1 = _mm512_loadu_ps(place + stride), a2 = _mm512_loadu_ps(place + 2 * stride),
             a3 = _mm512_loadu_ps(place + 3 * stride);
      quadruple(a0, a1, a2, a3);
      _mm512_storeu_ps(place, a0);
      _mm512_storeu_ps(place + stride, a1);
      _mm512_storeu_ps(place + 2 * stride, a2);
      _mm512_storeu_ps(place + 3 * stride, a3);
    }
}

void rotate_groups(float* row, std::int64_t count, std::int64_t group) {
  if (group == 256) {
    for (std::int64_t i = 0; i < count; i += group) rotate_256(row + i);
    return;
  }
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const auto mask = static_cast<__mmask16>(count - i >= kLanes ? 0xFFFF : (1 << (count - i)) - 1);  // groups of 4 may end anywhere
    __m512 x = stage_1(_mm512_maskz_loadu_ps(mask, row + i));
    if (group > 4) x = stage_4(x);
    _mm512_mask_storeu_ps(row + i, mask, x);
  }
  for (std::int64_t i = 0; i < count; i += group)
    for (std::int64_t stride = kLanes; stride < group; stride *= 4) stage_of(row + i, group, stride);
}

float quantize(float* row, std::int64_t count, std::int64_t group, float factor, std::uint8_t* out) {
  if (group > 0) rotate_groups(row, count, group);
  const __m512 factors = _mm512_set1_ps(factor);
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  // As integers the bits of magnitudes are in the order of their values, with those that are not finite at the end.
  __m512i top = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const auto mask = static_cast<__mmask16>(count - i >= kLanes ? 0xFFFF : (1 << (count - i)) - 1);
    const __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, row + i), factors);
    _mm512_mask_storeu_ps(row + i, mask, x);
    top = _mm512_maskz_max_epi32(kAll, top, _mm512_and_si512(_mm512_castps_si512(x), magnitude));
  }
  alignas(64) std::int32_t lanes[kLanes];
  _mm512_store_si512(lanes, top);
  std::int32_t bits = 0;
  for (const std::int32_t lane : lanes) bits = lane > bits ? lane : bits;
  if (bits >= 0x7F800000) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = 128;
    return __builtin_nanf("");
  }
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof(largest));
  const float share = largest / 127.0f, scale = share > 1e-30f ? share : 1e-30f;
  const __m512 divisor = _mm512_set1_ps(scale);
  const __m128i middle = _mm_set1_epi8(static_cast<char>(0x80));
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const auto mask = static_cast<__mmask16>(count - i >= kLanes ? 0xFFFF : (1 << (count - i)) - 1);
    const __m512 ratio = _mm512_maskz_div_ps(kAll, _mm512_maskz_loadu_ps(mask, row + i), divisor);
    const __m128i codes = _mm512_maskz_cvtsepi32_epi8(kAll, _mm512_maskz_cvtps_epi32(kAll, ratio));
    _mm_mask_storeu_epi8(out + i, mask, _mm_xor_si128(codes, middle));
  }
  return scale;
}

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

void multiply(const std::uint8_t* a, const std::int8_t* b, std::int64_t depth, std::int32_t* sums, bool add) {
  Words total[kRows][kVectors];
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) total[r][v] = add ? (Words)_mm512_loadu_si512(sums + r * kColumns + v * kLanes) : Words{};
  for (std::int64_t k = 0; k < depth; k += 4, a += kRows * 4, b += kColumns * 4) {
    __m512i right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = _mm512_loadu_si512(b + v * kLanes * 4);
#pragma GCC unroll 14
    for (int r = 0; r < kRows; ++r) {
      int word;
      __builtin_memcpy(&word, a + r * 4, sizeof(word));
      const __m512i left = _mm512_set1_epi32(word);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) total[r][v] = (Words)_mm512_dpbusd_epi32((__m512i)total[r][v], left, right[v]);
    }
  }
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(sums + r * kColumns + v * kLanes, (__m512i)total[r][v]);
}

void finish(const std::int32_t* sums, const float* scales, const Int8Columns& columns, float* y, std::int64_t stride) {
  for (int v = 0; v < kColumns; v += kLanes) {
    const __m512i offset = _mm512_loadu_si512(columns.offset + v);
    const __m512 scale = _mm512_loadu_ps(columns.scale + v);
    const __m512 bias = columns.bias != nullptr ? _mm512_loadu_ps(columns.bias + v) : _mm512_setzero_ps();
    for (int r = 0; r < kRows; ++r) {
      const __m512 sum = _mm512_maskz_cvtepi32_ps(kAll, _mm512_sub_epi32(_mm512_loadu_si512(sums + r * kColumns + v), offset));
      _mm512_storeu_ps(y + r * stride + v, _mm512_fmadd_ps(sum, _mm512_mul_ps(scale, _mm512_set1_ps(scales[r])), bias));
    }
  }
}

}  // namespace

// 32 registers: 28 sums, two vectors of weights, one of activations.
const Int8Functions kInt8Avx512{kRows, kColumns, quantize, pack, multiply, finish};

}  // namespace tritium::cpu
