#include <immintrin.h>
#include <cstdint>

namespace tritium::cpu {
namespace {

struct Sixteen {
  struct Bits {
    __m256i low, high;
  };
  __m256 low, high;

  static Sixteen load(const float* p, std::int64_t count) {
    if (count == 16) return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
    float some[16] = {};
    __builtin_memcpy(some, p, static_cast<std::size_t>(count) * sizeof(float));
    return {_mm256_loadu_ps(some), _mm256_loadu_ps(some + 8)};
  }
  void store(float* p, std::int64_t count) const {
    float all[16];
    float* place = count == 16 ? p : all;
    _mm256_storeu_ps(place, low);
    _mm256_storeu_ps(place + 8, high);
    if (count < 16) __builtin_memcpy(p, all, static_cast<std::size_t>(count) * sizeof(float));
  }
  [[nodiscard]] Sixteen minus_twice(Sixteen b) const {
    const __m256 two = _mm256_set1_ps(2.0f);
    return {_mm256_fnmadd_ps(two, b.low, low), _mm256_fnmadd_ps(two, b.high, high)};
  }
  [[nodiscard]] Sixteen neighbours() const {
    const auto total = [](__m256 x) {
      const __m256 pairs = _mm256_add_ps(x, _mm256_permute_ps(x, 0xB1));
      return _mm256_add_ps(pairs, _mm256_permute_ps(pairs, 0x4E));
    };
    return Sixteen{total(low), total(high)}.minus_twice({_mm256_permute_ps(low, 0x1B), _mm256_permute_ps(high, 0x1B)});
  }
  [[nodiscard]] Sixteen quads() const {
    const auto turned = [](__m256 x) { return _mm256_permute2f128_ps(x, x, 1); };
    const __m256 total = _mm256_add_ps(_mm256_add_ps(low, turned(low)), _mm256_add_ps(high, turned(high)));
    return Sixteen{total, total}.minus_twice({turned(high), turned(low)});
  }
  void magnitude_bits(Bits& top) const {
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    top.low = _mm256_max_epi32(top.low, _mm256_and_si256(_mm256_castps_si256(low), magnitude));
    top.high = _mm256_max_epi32(top.high, _mm256_and_si256(_mm256_castps_si256(high), magnitude));
  }
  void to_codes(float scale, std::uint8_t* out, std::int64_t count) const {
    const __m256 divisor = _mm256_set1_ps(scale);
    const __m256i a = _mm256_cvtps_epi32(_mm256_div_ps(low, divisor)), b = _mm256_cvtps_epi32(_mm256_div_ps(high, divisor));
    // 16 bits: values 0..3 and 8..11, then 4..7 and 12..15.
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
    const __m128i codes = _mm_packs_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    std::uint8_t all[16];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(count == 16 ? out : all), _mm_xor_si128(codes, _mm_set1_epi8(static_cast<char>(0x80))));
    if (count < 16) __builtin_memcpy(out, all, static_cast<std::size_t>(count));
  }
};
inline Sixteen operator+(Sixteen a, Sixteen b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Sixteen operator*(Sixteen a, float b) { return {_mm256_mul_ps(a.low, _mm256_set1_ps(b)), _mm256_mul_ps(a.high, _mm256_set1_ps(b))}; }

struct Words {
  static constexpr int kLanes = 8;
  using Vector = __m256i;

  static Vector load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store(void* p, Vector v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  static Vector broadcast(int word) { return _mm256_set1_epi32(word); }
  static Vector dot(Vector sum, Vector a, Vector b) { return _mm256_dpbusd_avx_epi32(sum, a, b); }
  static void finish(const std::int32_t* sums, const std::int32_t* offset, const float* scale, const float* bias, float row, float* y) {
    const __m256 whole = _mm256_cvtepi32_ps(_mm256_sub_epi32(load(sums), load(offset)));
    const __m256 factor = _mm256_mul_ps(_mm256_loadu_ps(scale), _mm256_set1_ps(row));
    _mm256_storeu_ps(y, _mm256_fmadd_ps(whole, factor, bias != nullptr ? _mm256_loadu_ps(bias) : _mm256_setzero_ps()));
  }
};

}  // namespace
}  // namespace tritium::cpu

#include "kernels/cpu/int8_vector.h"

namespace tritium::cpu {
namespace {

constexpr int kRows = 6, kVectors = 2, kColumns = kVectors * Words::kLanes;

void pack(const std::int8_t* rows, std::int64_t stride, std::int64_t depth, std::int8_t* out, std::int32_t* offsets) {
  Words::Vector sums[kVectors] = {};
  const __m256i ones = _mm256_set1_epi8(1);
  for (std::int64_t k = 0; k < depth; k += 4, out += kColumns * 4) {
    for (int column = 0; column < kColumns; ++column) __builtin_memcpy(out + column * 4, rows + column * stride + k, 4);
    for (int v = 0; v < kVectors; ++v) sums[v] = Words::dot(sums[v], ones, Words::load(out + v * Words::kLanes * 4));
  }
  for (int v = 0; v < kVectors; ++v) {
    std::int32_t* place = offsets + v * Words::kLanes;
    Words::store(place, _mm256_add_epi32(Words::load(place), _mm256_slli_epi32(sums[v], 7)));
  }
}

}  // namespace

// 16 registers: 12 sums, two vectors of weights, one of activations.
const Int8Functions kInt8AvxVnni{"avx_vnni", kRows, kColumns, quantize, pack, multiply<kRows, kVectors>, finish<kRows, kVectors>};

}  // namespace tritium::cpu
