#include "weights/dtype.h"

#include "weights/ggml_types.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tritium {
namespace {

struct TypeRow {
  DType type;
  std::string_view name;
  DTypeBlock block;
};

// In the order of the enumeration.
constexpr std::array<TypeRow, 41> kTypes = {{
    {DType::boolean, "BOOL", {1, 1}},
    {DType::u8, "U8", {1, 1}},
    {DType::i8, "I8", {1, 1}},
    {DType::i16, "I16", {1, 2}},
    {DType::u16, "U16", {1, 2}},
    {DType::i32, "I32", {1, 4}},
    {DType::u32, "U32", {1, 4}},
    {DType::i64, "I64", {1, 8}},
    {DType::u64, "U64", {1, 8}},
    {DType::f8_e4m3, "F8_E4M3", {1, 1}},
    {DType::f8_e5m2, "F8_E5M2", {1, 1}},
    {DType::f8_e8m0, "F8_E8M0", {1, 1}},
    {DType::f16, "F16", {1, 2}},
    {DType::bf16, "BF16", {1, 2}},
    {DType::f32, "F32", {1, 4}},
    {DType::f64, "F64", {1, 8}},
    {DType::q4_0, "Q4_0", {32, 18}},
    {DType::q4_1, "Q4_1", {32, 20}},
    {DType::q5_0, "Q5_0", {32, 22}},
    {DType::q5_1, "Q5_1", {32, 24}},
    {DType::q8_0, "Q8_0", {32, 34}},
    {DType::q2_k, "Q2_K", {256, 84}},
    {DType::q3_k, "Q3_K", {256, 110}},
    {DType::q4_k, "Q4_K", {256, 144}},
    {DType::q5_k, "Q5_K", {256, 176}},
    {DType::q6_k, "Q6_K", {256, 210}},
    {DType::iq1_s, "IQ1_S", {256, 50}},
    {DType::iq1_m, "IQ1_M", {256, 56}},
    {DType::iq2_xxs, "IQ2_XXS", {256, 66}},
    {DType::iq2_xs, "IQ2_XS", {256, 74}},
    {DType::iq2_s, "IQ2_S", {256, 82}},
    {DType::iq3_xxs, "IQ3_XXS", {256, 98}},
    {DType::iq3_s, "IQ3_S", {256, 110}},
    {DType::iq4_nl, "IQ4_NL", {32, 18}},
    {DType::iq4_xs, "IQ4_XS", {256, 136}},
    {DType::tq1_0, "TQ1_0", {256, 54}},
    {DType::tq2_0, "TQ2_0", {256, 66}},
    {DType::mxfp4, "MXFP4", {32, 17}},
    {DType::nvfp4, "NVFP4", {64, 36}},
    {DType::q1_0, "Q1_0", {128, 18}},
    {DType::q2_0, "Q2_0", {64, 18}},
}};

const TypeRow& row(DType type) { return kTypes[static_cast<std::size_t>(type)]; }

bool same_letters(std::string_view a, std::string_view b) {
  const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return upper(x) == upper(y); });
}

template <class Stored, class Convert>
void convert_each(std::span<const std::uint8_t> bytes, std::span<float> out, Convert convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = convert(value);
  }
}

template <class Stored>
void cast_each(std::span<const std::uint8_t> bytes, std::span<float> out) {
  convert_each<Stored>(bytes, out, [](Stored v) { return static_cast<float>(v); });
}

// Small float with `exponent` and `mantissa` bits, decoded exactly; infinities and NaN are left to the caller.
float decode_small_float(unsigned sign, int exponent, unsigned mantissa, int bias, int mantissa_bits) {
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits)
                                        : std::ldexp(static_cast<float>(mantissa | (1u << mantissa_bits)), exponent - bias - mantissa_bits);
  return sign ? -magnitude : magnitude;
}

}  // namespace

std::string_view dtype_name(DType type) { return row(type).name; }
std::size_t dtype_size(DType type) { return static_cast<std::size_t>(row(type).block.bytes); }
DTypeBlock dtype_block(DType type) { return row(type).block; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const TypeRow& r : kTypes)
    if (r.name == name && !is_block_dtype(r.type)) return r.type;
  return std::nullopt;
}

std::optional<DType> block_dtype_from_name(std::string_view name) {
  for (const TypeRow& r : kTypes)
    if (is_block_dtype(r.type) && same_letters(r.name, name)) return r.type;
  return std::nullopt;
}

float bf16_to_f32(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFu, sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t rebias = magnitude < 0x7C00u ? 112u << 23 : 224u << 23;  // infinities and NaN go to the highest exponent
  const auto subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  return std::bit_cast<float>(sign | (magnitude < 0x0400u ? subnormal : (magnitude << 13) + rebias));
}

std::uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7E00u;
  if (magnitude >= std::bit_cast<std::uint32_t>(65520.0f)) return sign | 0x7C00u;
  if (magnitude < std::bit_cast<std::uint32_t>(0x1p-14f)) {  // subnormal: the sum with 0.5 rounds to multiples of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f)));
  }
  magnitude += 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((magnitude - (112u << 23)) >> 13));
}

float f8_e4m3_to_f32(std::uint8_t bits) {
  if ((bits & 0x7Fu) == 0x7Fu) return std::numeric_limits<float>::quiet_NaN();
  return decode_small_float(bits >> 7, (bits >> 3) & 15, bits & 7u, 7, 3);
}

float f8_e5m2_to_f32(std::uint8_t bits) { return f16_to_f32(static_cast<std::uint16_t>(bits << 8)); }

float f8_e8m0_to_f32(std::uint8_t bits) {
  return bits == 0xFF ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, static_cast<int>(bits) - 127);
}

const std::array<float, 256>& f8_values(DType type) {
  const auto make = [](float (*convert)(std::uint8_t)) {
    std::array<float, 256> values{};
    for (unsigned bits = 0; bits < 256; ++bits) values[bits] = convert(static_cast<std::uint8_t>(bits));
    return values;
  };
  static const std::array<float, 256> e4m3 = make(f8_e4m3_to_f32), e5m2 = make(f8_e5m2_to_f32), e8m0 = make(f8_e8m0_to_f32);
  return type == DType::f8_e4m3 ? e4m3 : type == DType::f8_e5m2 ? e5m2 : e8m0;
}

void convert_to_f32(DType type, std::span<const std::uint8_t> bytes, std::span<float> out) {
  switch (type) {
    case DType::boolean:
    case DType::u8:
      return cast_each<std::uint8_t>(bytes, out);
    case DType::i8:
      return cast_each<std::int8_t>(bytes, out);
    case DType::i16:
      return cast_each<std::int16_t>(bytes, out);
    case DType::u16:
      return cast_each<std::uint16_t>(bytes, out);
    case DType::i32:
      return cast_each<std::int32_t>(bytes, out);
    case DType::u32:
      return cast_each<std::uint32_t>(bytes, out);
    case DType::i64:
      return cast_each<std::int64_t>(bytes, out);
    case DType::u64:
      return cast_each<std::uint64_t>(bytes, out);
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e8m0:
      return convert_each<std::uint8_t>(bytes, out, [&values = f8_values(type)](std::uint8_t v) { return values[v]; });
    case DType::f16:
      return convert_each<std::uint16_t>(bytes, out, f16_to_f32);
    case DType::bf16:
      return convert_each<std::uint16_t>(bytes, out, bf16_to_f32);
    case DType::f32:
      if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      return;
    case DType::f64:
      return cast_each<double>(bytes, out);
    default:
      return dequantize_blocks(type, bytes, out);
  }
}

}  // namespace tritium
