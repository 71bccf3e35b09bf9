#include "kernels/cpu/attention_avx512_vector.h"

namespace tritium::cpu {
namespace {

// Two neighbours of the depth are one 32-bit word; their products are added in float32.
struct Bf16 {
  using Type = std::uint16_t;
  struct Operand {
    __m512bh value;
  };
  static constexpr int kStep = 2;
  static Operand load(const Type* p) { return {(__m512bh)_mm512_loadu_si512(p)}; }
  static Operand broadcast(const Type* p) {
    int pair;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return {(__m512bh)_mm512_set1_epi32(pair)};
  }
  static Avx512 multiply_add(Operand a, Operand b, Avx512 c) { return {_mm512_dpbf16_ps(c.value, a.value, b.value)}; }
  static Avx512 widen(__m256i halves) {
    return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xFFFF, _mm512_maskz_cvtepu16_epi32(0xFFFF, halves), 16))};
  }
  static Avx512 store(Type* p, Avx512 low, Avx512 high) {
    const auto both = (__m512i)_mm512_cvtne2ps_pbh(high.value, low.value);
    _mm512_storeu_si512(p, both);
    return Avx512::add(widen(_mm512_castsi512_si256(both)), widen(_mm512_maskz_extracti64x4_epi64(0xFF, both, 1)));
  }
  static void convert(const float* in, std::int64_t count, void* out) {
    auto* to = static_cast<Type*>(out);
    for (std::int64_t i = 0; i < count; i += Avx512::kLanes) {
      const std::int64_t left = count - i;
      const auto mask = static_cast<__mmask16>(left >= Avx512::kLanes ? 0xFFFF : (1 << left) - 1);
      _mm256_mask_storeu_epi16(to + i, mask, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, in + i)));
    }
  }
};

}  // namespace
}  // namespace tritium::cpu

#define TRITIUM_ATTENTION_VECTOR Avx512
#define TRITIUM_ATTENTION_ELEMENT Bf16
#include "kernels/cpu/attention_tile.h"

namespace tritium::cpu {

const AttentionFunctions kAttentionAvx512Bf16{2, 14, 2 * Avx512::kLanes, Bf16::convert, multiply<14, 2>, softmax};

}  // namespace tritium::cpu
