#include "kernels/cpu/rows.h"

namespace tritium::cpu {

const RowFunctions& row_functions([[maybe_unused]] Isa isa) {
#ifdef TRITIUM_X86_KERNELS
  if (isa == Isa::avx512) return kRowsAvx512;
  if (isa == Isa::avx2) return kRowsAvx2;
#endif
  return kRowsGeneric;
}

}  // namespace tritium::cpu
