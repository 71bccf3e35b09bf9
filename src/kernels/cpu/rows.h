// The row operations of this machine (row_block.h).
#pragma once

#include "kernels/cpu/row_block.h"
#include "kernels/cpu/simd.h"

namespace tritium::cpu {

const RowFunctions& row_functions(Isa isa = *usable_isas().begin());

}  // namespace tritium::cpu
