// Element types of weight files and their conversion to float32.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tritium {

// From q4_0 on: ggml's block types, found in GGUF files. A block of values along a row shares scales (spec/weights.md §2.3).
// clang-format off
enum class DType {
  boolean, u8, i8, i16, u16, i32, u32, i64, u64, f8_e4m3, f8_e5m2, f8_e8m0, f16, bf16, f32, f64,
  q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, iq4_nl, iq4_xs,
  tq1_0, tq2_0, mxfp4, nvfp4, q1_0, q2_0
};
// clang-format on

std::string_view dtype_name(DType type);                      // "BF16" as in safetensors headers; block types by their usual names: "Q4_K"
std::optional<DType> dtype_from_name(std::string_view name);  // safetensors' names; none for unknown, sub-byte and block types
std::optional<DType> block_dtype_from_name(std::string_view name);  // "Q4_K", "q4_k"; none for anything but block types
std::size_t dtype_size(DType type);                                 // bytes per element. Precondition: not a block type

// The smallest unit of a type that has bytes of its own: one element of an ordinary type, a block of a block type.
struct DTypeBlock {
  std::int64_t values, bytes;
};
DTypeBlock dtype_block(DType type);
inline bool is_block_dtype(DType type) { return type >= DType::q4_0; }

float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);  // round to nearest even; NaN stays NaN
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);    // round to nearest even; 65520 and above become infinity; NaN stays NaN
float f8_e4m3_to_f32(std::uint8_t bits);  // the "fn" variant: no infinity, 0x7F and 0xFF are NaN
float f8_e5m2_to_f32(std::uint8_t bits);
float f8_e8m0_to_f32(std::uint8_t bits);  // 2^(bits-127), 0xFF is NaN

// All 256 values of an 8-bit float type. Precondition: type is f8_e4m3, f8_e5m2 or f8_e8m0.
const std::array<float, 256>& f8_values(DType type);

// Converts out.size() elements from possibly unaligned little-endian bytes. Precondition: out.size() elements are whole blocks of the
// type (always so for ordinary types), and bytes are exactly these.
void convert_to_f32(DType type, std::span<const std::uint8_t> bytes, std::span<float> out);

}  // namespace tritium
