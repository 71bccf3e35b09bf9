#include "kernels/cpu/simd.h"

#include <cstdlib>
#ifdef TRITIUM_X86_KERNELS
#include <cpuid.h>
#endif

namespace tritium::cpu {

namespace {

[[maybe_unused]] bool allowed(Isa isa) {
  const char* kernels = std::getenv("TRITIUM_KERNELS");
  const std::string_view wanted = kernels != nullptr ? kernels : "";
  return wanted != "generic" && (wanted != "avx2" || isa != Isa::avx512);
}

#ifdef TRITIUM_X86_KERNELS
// Clang 14 does not know the name of this one.
bool cpuid_has_avx_vnni() {
  constexpr unsigned kLeaf = 7, kSubleaf = 1, kAvxVnni = 1u << 4;  // of eax
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(kLeaf, kSubleaf, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnni) != 0;
}
#endif

}  // namespace

IsaList usable_isas() {
  IsaList out{{}, 0};
#ifdef TRITIUM_X86_KERNELS
  if (allowed(Isa::avx512) && __builtin_cpu_supports("avx512f")) out.items[out.count++] = Isa::avx512;
  if (allowed(Isa::avx2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out.items[out.count++] = Isa::avx2;
#endif
  out.items[out.count++] = Isa::generic;
  return out;
}

bool has_avx512_bf16() {
#ifdef TRITIUM_X86_KERNELS
  return allowed(Isa::avx512) && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

bool has_avx512_vnni() {
#ifdef TRITIUM_X86_KERNELS
  return allowed(Isa::avx512) && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

bool has_avx_vnni() {
#ifdef TRITIUM_X86_KERNELS
  return allowed(Isa::avx2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpuid_has_avx_vnni();
#else
  return false;
#endif
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    default:
      return "generic";
  }
}

}  // namespace tritium::cpu
