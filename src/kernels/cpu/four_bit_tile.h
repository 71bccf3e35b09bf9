// The decoders of rows of 4-bit codes; one set of them per instruction set, see simd.h.
#pragma once

#include "weights/quant/four_bit_row.h"

namespace tritium::cpu {

struct FourBitFunctions {
  // `count` is a multiple of the group, which is one of 16.
  void (*to_int8)(const FourBitRow& row, std::int64_t count, std::int8_t* out);
  void (*to_bf16)(const FourBitRow& row, std::int64_t count, std::uint16_t* out);
};

extern const FourBitFunctions kFourBitAvx512;

}  // namespace tritium::cpu
