#include "weights/ggml_types.h"

#include <fmt/format.h>
#include <ggml.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace tritium {
namespace {

struct TypePair {
  DType type;
  ggml_type id;
};

constexpr TypePair kPairs[] = {
    {DType::f32, GGML_TYPE_F32},       {DType::f16, GGML_TYPE_F16},       {DType::bf16, GGML_TYPE_BF16},
    {DType::f64, GGML_TYPE_F64},       {DType::i8, GGML_TYPE_I8},         {DType::i16, GGML_TYPE_I16},
    {DType::i32, GGML_TYPE_I32},       {DType::i64, GGML_TYPE_I64},       {DType::q4_0, GGML_TYPE_Q4_0},
    {DType::q4_1, GGML_TYPE_Q4_1},     {DType::q5_0, GGML_TYPE_Q5_0},     {DType::q5_1, GGML_TYPE_Q5_1},
    {DType::q8_0, GGML_TYPE_Q8_0},     {DType::q2_k, GGML_TYPE_Q2_K},     {DType::q3_k, GGML_TYPE_Q3_K},
    {DType::q4_k, GGML_TYPE_Q4_K},     {DType::q5_k, GGML_TYPE_Q5_K},     {DType::q6_k, GGML_TYPE_Q6_K},
    {DType::iq1_s, GGML_TYPE_IQ1_S},   {DType::iq1_m, GGML_TYPE_IQ1_M},   {DType::iq2_xxs, GGML_TYPE_IQ2_XXS},
    {DType::iq2_xs, GGML_TYPE_IQ2_XS}, {DType::iq2_s, GGML_TYPE_IQ2_S},   {DType::iq3_xxs, GGML_TYPE_IQ3_XXS},
    {DType::iq3_s, GGML_TYPE_IQ3_S},   {DType::iq4_nl, GGML_TYPE_IQ4_NL}, {DType::iq4_xs, GGML_TYPE_IQ4_XS},
    {DType::tq1_0, GGML_TYPE_TQ1_0},   {DType::tq2_0, GGML_TYPE_TQ2_0},   {DType::mxfp4, GGML_TYPE_MXFP4},
    {DType::nvfp4, GGML_TYPE_NVFP4},   {DType::q1_0, GGML_TYPE_Q1_0},     {DType::q2_0, GGML_TYPE_Q2_0},
};

std::optional<ggml_type> id_of(DType type) {
  for (const TypePair& pair : kPairs)
    if (pair.type == type) return pair.id;
  return std::nullopt;
}

template <class Narrow>
void narrow_each(std::span<const float> values, std::span<std::uint8_t> out, Narrow narrow) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = narrow(values[i]);
    std::memcpy(out.data() + 2 * i, &bits, 2);
  }
}

// ggml reads blocks through pointers to structures of 1-, 2- and 4-byte fields.
bool aligned(const std::uint8_t* bytes, DTypeBlock block) {
  const auto needed = static_cast<std::uintptr_t>(std::min<std::int64_t>(4, block.bytes & -block.bytes));
  return reinterpret_cast<std::uintptr_t>(bytes) % needed == 0;
}

}  // namespace

std::optional<DType> dtype_from_ggml(std::uint32_t id) {
  for (const TypePair& pair : kPairs)
    if (static_cast<std::uint32_t>(pair.id) == id) return pair.type;
  return std::nullopt;
}

std::optional<std::uint32_t> ggml_id(DType type) {
  const auto id = id_of(type);
  return id ? std::optional(static_cast<std::uint32_t>(*id)) : std::nullopt;
}

void dequantize_blocks(DType type, std::span<const std::uint8_t> bytes, std::span<float> out) {
  const auto decode = ggml_get_type_traits(*id_of(type))->to_float;
  const DTypeBlock block = dtype_block(type);
  if (out.empty()) return;
  if (aligned(bytes.data(), block)) return decode(bytes.data(), out.data(), static_cast<std::int64_t>(out.size()));
  constexpr std::size_t kBlocksAtOnce = 64;
  const std::size_t piece = kBlocksAtOnce * static_cast<std::size_t>(block.bytes);
  std::vector<std::uint8_t> copy(std::min(piece, bytes.size()));
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const std::size_t count = std::min(piece, bytes.size() - at), first_block = at / static_cast<std::size_t>(block.bytes);
    std::memcpy(copy.data(), bytes.data() + at, count);
    decode(copy.data(), out.data() + first_block * static_cast<std::size_t>(block.values),
           static_cast<std::int64_t>(count) / block.bytes * block.values);
  }
}

bool blocks_are_finite(DType type, std::span<const std::uint8_t> bytes) {
  const DTypeBlock block = dtype_block(type);
  if (aligned(bytes.data(), block)) return ggml_validate_row_data(*id_of(type), bytes.data(), bytes.size());
  constexpr std::size_t kBlocksAtOnce = 4096;
  std::vector<std::uint8_t> copy;
  for (std::size_t at = 0; at < bytes.size(); at += copy.size()) {
    const std::size_t count = std::min(kBlocksAtOnce * static_cast<std::size_t>(block.bytes), bytes.size() - at);
    copy.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin() + static_cast<std::ptrdiff_t>(at + count));
    if (!ggml_validate_row_data(*id_of(type), copy.data(), copy.size())) return false;
  }
  return true;
}

bool can_quantize(DType type) {
  if (type == DType::f32 || type == DType::f16 || type == DType::bf16) return true;
  if (type == DType::iq1_m || type == DType::iq2_s) return false;  // ggml would, at a quality that is of no use
  const auto id = id_of(type);
  return id && is_block_dtype(type) && !ggml_quantize_requires_imatrix(*id);
}

Result<void> quantize(DType type, std::span<const float> values, std::int64_t columns, std::span<std::uint8_t> out) {
  if (!can_quantize(type))
    return Error{ErrorCode::failure, fmt::format("values cannot be quantized to {}", dtype_name(type)), "",
                 "types that need an importance matrix and integer types can be read only"};
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
    return Error{ErrorCode::failure, fmt::format("a value to be quantized to {} is not finite", dtype_name(type)), "", ""};
  if (values.empty()) return {};
  if (type == DType::f32) return std::memcpy(out.data(), values.data(), values.size_bytes()), Result<void>();
  if (type == DType::f16) return narrow_each(values, out, f32_to_f16), Result<void>();
  if (type == DType::bf16) return narrow_each(values, out, f32_to_bf16), Result<void>();
  const auto rows = static_cast<std::int64_t>(values.size()) / columns;
  const DTypeBlock block = dtype_block(type);
  std::vector<std::uint8_t> copy;
  const bool direct = aligned(out.data(), block);
  if (!direct) copy.resize(out.size());
  ggml_quantize_chunk(*id_of(type), values.data(), direct ? out.data() : copy.data(), 0, rows, columns, nullptr);
  if (!direct) std::memcpy(out.data(), copy.data(), copy.size());
  return {};
}

}  // namespace tritium
