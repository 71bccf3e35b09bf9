// Rows of 4-bit codes as the products want them, with the same values as PackedRows::decode(): sixteen values per group of codes, looked up
// by vectors.
#pragma once

#include "kernels/cpu/four_bit_tile.h"
#include "weights/quant/packed_rows.h"

namespace tritium::cpu {

// Null where this machine has none.
const FourBitFunctions* four_bit_functions();

// PackedRows::decode_integers(), by the functions above where they can.
void decode_integers(const PackedRows& rows, std::int64_t begin, std::int64_t end, const std::uint8_t* bytes, std::int64_t stride,
                     std::int8_t* out);
// One row of PackedRows::decode(), rounded to bfloat16. `scratch` is grown as needed.
void decode_bf16(const PackedRows& rows, std::int64_t row, const std::uint8_t* bytes, std::vector<float>& scratch, std::uint16_t* out);

}  // namespace tritium::cpu
