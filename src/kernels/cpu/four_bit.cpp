#include "kernels/cpu/four_bit.h"

#include "kernels/cpu/rows.h"

namespace tritium::cpu {

const FourBitFunctions* four_bit_functions() {
#ifdef TRITIUM_X86_KERNELS
  if (has_avx512_vnni()) return &kFourBitAvx512;  // which implies what they need
#endif
  return nullptr;
}

void decode_integers(const PackedRows& rows, std::int64_t begin, std::int64_t end, const std::uint8_t* bytes, std::int64_t stride,
                     std::int8_t* out) {
  const FourBitFunctions* fast = four_bit_functions();
  for (std::int64_t row = begin; row < end; ++row, out += stride) {
    if (const auto codes = fast != nullptr ? rows.four_bit_row(row, bytes) : std::nullopt)
      fast->to_int8(*codes, rows.columns(), out);
    else
      rows.decode_integers(row, row + 1, bytes, stride, out);
  }
}

void decode_bf16(const PackedRows& rows, std::int64_t row, const std::uint8_t* bytes, std::vector<float>& scratch, std::uint16_t* out) {
  const RowFunctions& run = row_functions();
  if (const std::int8_t* integers = rows.stored_integers(row, bytes)) return run.integers_to_bf16(integers, rows.columns(), out);
  if (const std::uint16_t* halves = rows.stored_halves(row, bytes)) return run.halves_to_bf16(halves, rows.columns(), out);
  if (const FourBitFunctions* fast = four_bit_functions())
    if (const auto codes = rows.four_bit_row(row, bytes)) return fast->to_bf16(*codes, rows.columns(), out);
  scratch.resize(static_cast<std::size_t>(rows.columns()));
  rows.decode(row, row + 1, bytes, scratch.data());
  run.to_bf16(scratch.data(), rows.columns(), out);
}

}  // namespace tritium::cpu
