// The row operations of this machine (row_block.h).
#pragma once

#include "kernels/cpu/row_block.h"
#include "kernels/cpu/simd.h"

#include <cstddef>

namespace tritium::cpu {

const RowFunctions& row_functions(Isa isa = *usable_isas().begin());

// Results larger than this have left the caches before they are read.
inline constexpr std::size_t kStreamedBytes = std::size_t{16} << 20;
constexpr Stores stores_for(std::size_t bytes) { return bytes > kStreamedBytes ? Stores::streamed : Stores::cached; }

}  // namespace tritium::cpu
