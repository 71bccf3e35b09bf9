#include "peak.h"

#include <algorithm>
#include <ctime>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tritium::bench {
namespace {

constexpr int kRounds = 2'000'000, kChains = 12;

#if defined(__x86_64__)
// The sums hide from the optimiser what they are made of. `constraint` is that of the vector register.
#define TRITIUM_CHAINS(vector, step)                                   \
  vector sum[kChains] = {};                                            \
  for (int round = 0; round < kRounds; ++round) {                      \
    for (int i = 0; i < kChains; ++i) sum[i] = step;                   \
    for (int i = 0; i < kChains; ++i) asm volatile("" : "+v"(sum[i])); \
  }

__attribute__((target("avx2,fma"), optimize("O3"))) void f32_avx2() {
  const __m256 a = _mm256_set1_ps(1.0f);
  TRITIUM_CHAINS(__m256, _mm256_fmadd_ps(a, a, sum[i]))
}
__attribute__((target("avx512f"), optimize("O3"))) void f32_avx512() {
  const __m512 a = _mm512_set1_ps(1.0f);
  TRITIUM_CHAINS(__m512, _mm512_fmadd_ps(a, a, sum[i]))
}
__attribute__((target("avx512f,avx512bf16"), optimize("O3"))) void bf16_avx512() {
  const auto a = (__m512bh)_mm512_set1_epi32(0x3F803F80);
  TRITIUM_CHAINS(__m512, _mm512_dpbf16_ps(sum[i], a, a))
}
__attribute__((target("avx512f,avx512vnni"), optimize("O3"))) void int8_avx512() {
  const __m512i a = _mm512_set1_epi8(1);
  TRITIUM_CHAINS(__m512i, _mm512_dpbusd_epi32(sum[i], a, a))
}
#endif

double speed(void (*run)(), double operations_per_step) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const double start = thread_seconds();
    run();
    best = std::min(best, thread_seconds() - start);
  }
  return operations_per_step * kRounds * kChains / best;
}

}  // namespace

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double measured_peak([[maybe_unused]] Unit unit) {
#if defined(__x86_64__)
  if (unit == Unit::f32 && __builtin_cpu_supports("avx512f")) return speed(f32_avx512, 32);
  if (unit == Unit::f32 && __builtin_cpu_supports("avx2")) return speed(f32_avx2, 16);
  if (unit == Unit::bf16 && __builtin_cpu_supports("avx512bf16")) return speed(bf16_avx512, 64);
  if (unit == Unit::int8 && __builtin_cpu_supports("avx512vnni")) return speed(int8_avx512, 128);
#endif
  return 0;
}

}  // namespace tritium::bench
