#include "kernels/cpu/simd.h"

#include <cstdlib>

namespace tritium::cpu {

namespace {

[[maybe_unused]] bool allowed(Isa isa) {
  const char* kernels = std::getenv("TRITIUM_KERNELS");
  const std::string_view wanted = kernels != nullptr ? kernels : "";
  return wanted != "generic" && (wanted != "avx2" || isa != Isa::avx512);
}

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
  return allowed(Isa::avx2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avxvnni");
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
