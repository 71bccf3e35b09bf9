// A stored row of 4-bit codes, for decoders of whole vectors. Includes nothing: also read by sources of one instruction set.
#pragma once

#include <cstdint>

namespace tritium {

// Code i lies in byte i/2. Its value is table[code]·scale of its group of `group` codes, perhaps rounded to the grid of the format: to the
// nearest even integer within ±127.
struct FourBitRow {
  const std::uint8_t* codes;
  const float* table;  // [16]
  std::int64_t group;
  // Of the groups of this row: values, or codes that stand for scale_table's values, or neither (1).
  const float* scales;
  const std::uint8_t* scale_codes;
  const float* scale_table;
  bool low_first;  // code 0 lies in the low half of byte 0
  bool integers;   // rounded to the grid
};

}  // namespace tritium
