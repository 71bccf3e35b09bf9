#include "kernels/cpu/simd.h"

namespace tritium::cpu {

IsaList usable_isas() {
  IsaList out{{}, 0};
#ifdef TRITIUM_X86_KERNELS
  if (__builtin_cpu_supports("avx512f")) out.items[out.count++] = Isa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out.items[out.count++] = Isa::avx2;
#endif
  out.items[out.count++] = Isa::generic;
  return out;
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
