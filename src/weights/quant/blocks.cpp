#include "weights/quant/blocks.h"

#include "base/try.h"
#include "weights/quant/row_kernels.h"

#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tritium {
namespace {

constexpr std::array<BlockLayout, 5> kLayouts = {{{"q8_0", 32, 34}, {"q4_0", 32, 18}, {"q4_1", 32, 20}, {"nvfp4", 64, 36}, {"bf16", 1, 2}}};

void put_u16(std::uint8_t* out, std::uint16_t value) {
  out[0] = static_cast<std::uint8_t>(value & 0xFFu);
  out[1] = static_cast<std::uint8_t>(value >> 8);
}

std::uint8_t nibble(const std::uint8_t* bytes, std::int64_t k, bool low_first) {
  const bool low = (k % 2 == 0) == low_first;
  return low ? bytes[k / 2] & 15u : bytes[k / 2] >> 4;
}

void encode_q8_0(std::span<const float> grid, float d, std::uint8_t* out) {
  const std::uint16_t half = f32_to_f16(d);
  for (std::size_t k = 0; k < grid.size(); k += 32, out += 34) {
    put_u16(out, half);
    for (std::size_t i = 0; i < 32; ++i) out[2 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(grid[k + i]));
  }
}

// The 32 codes from column k on, already in the unsigned form of the block: value i low, value i+16 high. Two's complement nibbles
// become unsigned ones around 8 by `flip` = 8.
void pack_32(const std::uint8_t* bytes, std::int64_t k, std::uint8_t flip, std::uint8_t* out) {
  for (std::int64_t i = 0; i < 16; ++i)
    out[i] = static_cast<std::uint8_t>((nibble(bytes, k + i, true) | nibble(bytes, k + i + 16, true) << 4) ^ (flip | flip << 4));
}

void encode_q4_0(const std::uint8_t* bytes, std::int64_t columns, float d, std::uint8_t* out) {
  const std::uint16_t half = f32_to_f16(d);
  for (std::int64_t k = 0; k < columns; k += 32, out += 18) {
    put_u16(out, half);
    pack_32(bytes, k, 8, out + 2);
  }
}

// W = (q-8)·s + z = q·s + (z - 8·s)
float q4_1_offset(float scale, float zero) { return zero - 8 * scale; }

void encode_q4_1(const SideValues& sides, std::int64_t first_group, std::int64_t group, const std::uint8_t* bytes, std::int64_t columns,
                 std::uint8_t* out) {
  for (std::int64_t k = 0; k < columns; k += 32, out += 20) {
    const std::int64_t g = first_group + k / group;
    const float scale = sides.group_scale.at(g);
    put_u16(out, f32_to_f16(scale));
    put_u16(out + 2, f32_to_f16(q4_1_offset(scale, sides.group_offset[static_cast<std::size_t>(g)])));
    pack_32(bytes, k, 0, out + 4);
  }
}

void encode_nvfp4(const SideValues& sides, std::int64_t first_group, const std::uint8_t* bytes, std::int64_t columns, std::uint8_t* out) {
  for (std::int64_t k = 0; k < columns; k += 64, out += 36) {
    std::memcpy(out, sides.group_scale.codes.data() + first_group + k / 16, 4);
    for (std::int64_t part = 0; part < 4; ++part)
      for (std::int64_t i = 0; i < 8; ++i)
        out[4 + part * 8 + i] =
            static_cast<std::uint8_t>(nibble(bytes, k + part * 16 + i, false) | nibble(bytes, k + part * 16 + i + 8, false) << 4);
  }
}

// The upper half of every float32; false if a lower half is not zero, so that bf16 cannot hold the value.
bool encode_bf16(std::span<const float> values, std::uint8_t* out) {
  std::uint32_t lost = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const auto bits = std::bit_cast<std::uint32_t>(values[k]);
    lost |= bits & 0xFFFFu;
    put_u16(out + 2 * k, static_cast<std::uint16_t>(bits >> 16));
  }
  return lost == 0;
}

bool fits_f16(float v) { return f16_to_f32(f32_to_f16(v)) == v; }

}  // namespace

const BlockLayout& block_layout(BlockType type) { return kLayouts[static_cast<std::size_t>(type)]; }

std::optional<BlockType> lossless_block_type(const QuantDescription& quant) {
  switch (quant.format) {
    case QuantFormat::int8:
    case QuantFormat::w6a8:
    case QuantFormat::w4a8:
      return quant.sides.correction == nullptr ? std::optional(BlockType::q8_0) : std::nullopt;
    case QuantFormat::w4a4:
      return BlockType::q4_0;
    case QuantFormat::awq_w4a16:
      return quant.group % 32 == 0 ? std::optional(BlockType::q4_1) : std::nullopt;
    case QuantFormat::nvfp4:
      return BlockType::nvfp4;
    case QuantFormat::fp8_e4m3:
    case QuantFormat::fp8_e5m2:
    case QuantFormat::mxfp8:
      return BlockType::bf16;
    case QuantFormat::nf4:
      return std::nullopt;
  }
  __builtin_unreachable();
}

int shared_exponent(std::vector<float> scales) {
  if (scales.empty()) return 0;
  std::sort(scales.begin(), scales.end());
  const std::size_t half = scales.size() / 2;
  const double median =
      scales.size() % 2 != 0 ? scales[half] : (static_cast<double>(scales[half - 1]) + static_cast<double>(scales[half])) / 2;
  if (!(median > 0)) return 0;
  return static_cast<int>(std::clamp(std::nearbyint(std::log2(median)), -14.0, 0.0));
}

Error BlockEncoder::refuse(const std::string& what) const {
  return Error{ErrorCode::model, fmt::format("{}, as {}", what, block_layout(type_).name), reader_->tensor().stored->name, ""};
}

Result<BlockEncoder> BlockEncoder::create(const MatrixReader& reader, ScalePlacement placement) {
  const auto type = reader.quant() ? lossless_block_type(*reader.quant()) : std::nullopt;
  if (!type)
    return Error{ErrorCode::failure, fmt::format("no block type holds {} as it is", reader.tensor().format_name()), reader.tensor().name,
                 ""};
  BlockEncoder out(reader);
  out.type_ = *type;
  const std::int64_t values = block_layout(*type).values;
  if (reader.columns() % values != 0) return out.refuse(fmt::format("its {} columns do not fill blocks of {}", reader.columns(), values));
  TRITIUM_TRY(out.place_scales(placement));
  TRITIUM_TRY(out.check_scales());
  return out;
}

Result<void> BlockEncoder::place_scales(ScalePlacement placement) {
  const auto rows = static_cast<std::size_t>(reader_->rows());
  if (type_ == BlockType::nvfp4)
    row_scale_.assign(rows, reader_->sides().tensor_scale);
  else
    row_scale_ = reader_->row_scales();
  if (type_ != BlockType::q8_0 && type_ != BlockType::q4_0) return {};
  if (placement == ScalePlacement::output) {
    block_scale_ = std::ldexp(1.0f, shared_exponent(row_scale_));
    for (float& scale : row_scale_) scale /= block_scale_;
    return {};
  }
  for (const float scale : row_scale_)
    if (std::isinf(f16_to_f32(f32_to_f16(scale)))) return refuse(fmt::format("scale {} is above the range of fp16", scale));
  exact_ = std::all_of(row_scale_.begin(), row_scale_.end(), fits_f16);
  d_of_row_ = std::move(row_scale_);
  row_scale_.clear();
  return {};
}

Result<void> BlockEncoder::check_scales() {
  const SideValues& sides = reader_->sides();
  if (type_ == BlockType::nvfp4)
    for (const std::uint8_t code : sides.group_scale.codes)
      if (code >= 0x80) return refuse(fmt::format("block scale {} is negative", sides.group_scale.table[code]));
  if (type_ != BlockType::q4_1) return {};
  for (std::size_t g = 0; g < sides.group_offset.size(); ++g) {
    const float scale = sides.group_scale.values[g], offset = q4_1_offset(scale, sides.group_offset[g]);
    if (std::isinf(f16_to_f32(f32_to_f16(scale))) || std::isinf(f16_to_f32(f32_to_f16(offset))))
      return refuse(fmt::format("scale {} with offset {} is above the range of fp16", scale, offset));
    exact_ = exact_ && fits_f16(scale) && fits_f16(offset) && offset + 8 * scale == sides.group_offset[g];
  }
  return {};
}

Result<void> BlockEncoder::encode_rows(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const {
  const QuantDescription& quant = *reader_->quant();
  const SideValues& sides = reader_->sides();
  const std::int64_t columns = reader_->columns(), groups = quant.group > 0 ? reader_->tensor().shape[1] / quant.group : 0;
  std::vector<float> values(static_cast<std::size_t>(columns));
  bool representable = true;
  TRITIUM_TRY(reader_->visit_rows(begin, end, [&](std::int64_t row, std::int64_t position, std::span<const std::uint8_t> bytes) {
    std::uint8_t* target = out.data() + (position - begin) * row_bytes();
    const float d = d_of_row_.empty() ? block_scale_ : d_of_row_[static_cast<std::size_t>(position)];
    switch (type_) {
      case BlockType::q8_0:
        grid_row(quant, sides, row, bytes, values);
        return encode_q8_0(values, d, target);
      case BlockType::q4_0:
        return encode_q4_0(bytes.data(), columns, d, target);
      case BlockType::q4_1:
        return encode_q4_1(sides, row * groups, quant.group, bytes.data(), columns, target);
      case BlockType::nvfp4:
        return encode_nvfp4(sides, row * groups, bytes.data(), columns, target);
      case BlockType::bf16:
        if (quant.format == QuantFormat::mxfp8)
          decode_row(quant, sides, row, bytes, values);
        else
          convert_to_f32(quant.format == QuantFormat::fp8_e4m3 ? DType::f8_e4m3 : DType::f8_e5m2, bytes, values);
        representable &= encode_bf16(values, target);
        return;
    }
  }));
  if (!representable) return refuse("it has values below the range of bf16");
  return {};
}

}  // namespace tritium
