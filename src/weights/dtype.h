// Element types of weight files and their conversion to float32.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tritium {

enum class DType { boolean, u8, i8, i16, u16, i32, u32, i64, u64, f8_e4m3, f8_e5m2, f8_e8m0, f16, bf16, f32, f64 };

std::string_view dtype_name(DType type);                      // as in safetensors headers: "BF16"
std::optional<DType> dtype_from_name(std::string_view name);  // none for unknown (also sub-byte) types
std::size_t dtype_size(DType type);                           // bytes per element

float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);  // round to nearest even; NaN stays NaN
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);    // round to nearest even; 65520 and above become infinity; NaN stays NaN
float f8_e4m3_to_f32(std::uint8_t bits);  // the "fn" variant: no infinity, 0x7F and 0xFF are NaN
float f8_e5m2_to_f32(std::uint8_t bits);
float f8_e8m0_to_f32(std::uint8_t bits);  // 2^(bits-127), 0xFF is NaN

// All 256 values of an 8-bit float type. Precondition: type is f8_e4m3, f8_e5m2 or f8_e8m0.
const std::array<float, 256>& f8_values(DType type);

// Converts out.size() elements from possibly unaligned little-endian bytes. Precondition: bytes.size() == out.size()*dtype_size(type).
void convert_to_f32(DType type, std::span<const std::uint8_t> bytes, std::span<float> out);

}  // namespace tritium
