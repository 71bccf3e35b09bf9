#include "weights/quant/row_kernels.h"

#include "weights/quant/rotation.h"

#include <algorithm>
#include <cstring>

namespace tritium {
namespace {

using Table = std::array<float, 16>;

constexpr std::int64_t kBatch = 16;  // groups, tables or steps of 16 values handled at once: loops long enough for vectors

// clamp(rne(v), -127, 127) without a library call: a sum with 1.5·2^23 has a unit of 1, so it rounds to even as IEEE does.
void to_grid(std::span<float> values) {
  constexpr float kRounder = 12582912.0f;
  for (float& v : values) {
    const float above = v < -127.0f ? -127.0f : v, clamped = above > 127.0f ? 127.0f : above;
    v = (clamped + kRounder) - kRounder;
  }
}

Table table_of(const SideValues& sides) {
  Table out;
  std::copy_n(sides.table.begin(), out.size(), out.begin());
  return out;
}

enum class FirstNibble { low, high };

template <FirstNibble First>
void look_up(const std::uint8_t* bytes, std::int64_t count, const float* table, float* out) {
  for (std::int64_t j = 0; j < count / 2; ++j) {
    const std::uint8_t low = bytes[j] & 15u, high = bytes[j] >> 4;
    out[2 * j] = table[First == FirstNibble::low ? low : high];
    out[2 * j + 1] = table[First == FirstNibble::low ? high : low];
  }
  if (count % 2 != 0) out[count - 1] = table[First == FirstNibble::low ? bytes[count / 2] & 15u : bytes[count / 2] >> 4];
}

// Each group of the row is looked up in a table of its own: entry(value of the code, index of the group).
template <FirstNibble First, class Entry>
void look_up_groups(const SideValues& sides, std::int64_t first_group, std::int64_t group, const std::uint8_t* bytes, std::span<float> out,
                    Entry entry) {
  const auto columns = static_cast<std::int64_t>(out.size());
  const Table values = table_of(sides);
  for (std::int64_t g = 0; g * group < columns; ++g) {
    Table table;
    const float scale = sides.group_scale.at(first_group + g);
    for (std::size_t code = 0; code < 16; ++code) table[code] = entry(values[code], scale, first_group + g);
    look_up<First>(bytes + g * group / 2, std::min(group, columns - g * group), table.data(), out.data() + g * group);
  }
}

void grid_4bit(const SideValues& sides, std::int64_t first_group, std::int64_t group, const std::uint8_t* bytes, std::span<float> out) {
  const std::int64_t groups = static_cast<std::int64_t>(out.size()) / group;
  const Table values = table_of(sides);
  std::array<float, 16 * kBatch> tables;
  for (std::int64_t first = 0; first < groups; first += kBatch) {
    const std::int64_t count = std::min(kBatch, groups - first);
    for (std::int64_t g = 0; g < count; ++g) {
      const float scale = sides.group_scale.at(first_group + first + g);
      float* table = tables.data() + 16 * g;
      for (std::size_t code = 0; code < 16; ++code) table[code] = values[code] * scale;
    }
    to_grid(std::span(tables).first(static_cast<std::size_t>(16 * count)));
    for (std::int64_t g = 0; g < count; ++g)
      look_up<FirstNibble::low>(bytes + (first + g) * group / 2, group, tables.data() + 16 * g, out.data() + (first + g) * group);
  }
}

// 6-bit codes: the low four bits of all of them, then their two upper bits (§4.3). Unpacked four at a time, one byte each.
void unpack_6bit(const std::uint8_t* low, const std::uint8_t* high, std::size_t count, std::uint8_t* out) {
  for (std::size_t j = 0; j < count / 4; ++j) {
    std::uint32_t word = low[2 * j] | static_cast<std::uint32_t>(low[2 * j + 1]) << 8, upper = high[j];
    word = (word | word << 8) & 0x00FF00FFu;
    word = (word | word << 4) & 0x0F0F0F0Fu;
    upper = (upper | upper << 12) & 0x000F000Fu;
    upper = (upper | upper << 6) & 0x03030303u;
    word |= upper << 4;
    std::memcpy(out + 4 * j, &word, 4);
  }
}

void grid_6bit(const SideValues& sides, std::int64_t first_group, std::int64_t group, const std::uint8_t* bytes, std::span<float> out) {
  constexpr std::size_t kStep = 16, kPiece = kBatch * kStep;  // groups are multiples of 16
  std::array<std::uint8_t, kPiece> codes;
  for (std::size_t at = 0; at < out.size(); at += kPiece) {
    const std::span<float> piece = out.subspan(at, std::min(kPiece, out.size() - at));
    unpack_6bit(bytes + at / 2, bytes + out.size() / 2 + at / 4, piece.size(), codes.data());
    for (std::size_t k = 0; k < piece.size(); k += kStep) {
      const float scale = sides.group_scale.at(first_group + static_cast<std::int64_t>(at + k) / group);
      for (std::size_t i = k; i < k + kStep; ++i) piece[i] = static_cast<float>(static_cast<int>(codes[i]) - 32) * scale;
    }
    to_grid(piece);
  }
}

void widen(std::span<const std::uint8_t> bytes, std::span<float> out) {
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = static_cast<float>(static_cast<std::int8_t>(bytes[k]));
}

void multiply(std::span<float> values, float factor) {
  for (float& v : values) v *= factor;
}

void decode_grid(const QuantDescription& quant, const SideValues& sides, std::int64_t row, std::span<const std::uint8_t> bytes,
                 std::span<float> out) {
  grid_row(quant, sides, row, bytes, out);
  const float scale = sides.row_scale_at(row);
  if (quant.rotation == 0) return multiply(out, scale);
  if (sides.group_offset.empty()) return rotate(out, quant.rotation, scale);
  const auto group = static_cast<std::size_t>(quant.group), groups = out.size() / group;
  for (std::size_t g = 0; g < groups; ++g) {
    const float offset = sides.group_offset[static_cast<std::size_t>(row) * groups + g];
    for (float& v : out.subspan(g * group, group)) v = v * scale + offset;
  }
  rotate(out, quant.rotation);
}

void decode_fp8(DType type, float scale, std::span<const std::uint8_t> bytes, std::span<float> out) {
  const std::array<float, 256>& values = f8_values(type);
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = values[bytes[k]] * scale;
}

void decode_mxfp8(const QuantDescription& quant, const SideValues& sides, std::int64_t row, std::span<const std::uint8_t> bytes,
                  std::span<float> out) {
  const auto group = static_cast<std::size_t>(quant.group), groups = out.size() / group;
  for (std::size_t g = 0; g < groups; ++g) {
    const float scale = sides.group_scale.at(row * static_cast<std::int64_t>(groups) + static_cast<std::int64_t>(g));
    decode_fp8(DType::f8_e4m3, scale, bytes.subspan(g * group, group), out.subspan(g * group, group));
  }
}

void decode_nvfp4(const QuantDescription& quant, const SideValues& sides, std::int64_t row, std::span<const std::uint8_t> bytes,
                  std::span<float> out) {
  const std::int64_t groups = static_cast<std::int64_t>(bytes.size()) * 2 / quant.group;
  look_up_groups<FirstNibble::high>(sides, row * groups, quant.group, bytes.data(), out,
                                    [s = sides.tensor_scale](float value, float scale, std::int64_t) { return value * (scale * s); });
  if (sides.column_factor.empty()) return;
  for (std::size_t k = 0; k < out.size(); ++k) out[k] *= sides.column_factor[k];
}

float round_to(DType type, float v) {
  if (type == DType::bf16) return bf16_to_f32(f32_to_bf16(v));
  return type == DType::f16 ? f16_to_f32(f32_to_f16(v)) : v;
}

}  // namespace

bool has_integer_grid(const QuantDescription& quant) {
  return quant.format == QuantFormat::int8 || quant.format == QuantFormat::w4a8 || quant.format == QuantFormat::w6a8 ||
         quant.format == QuantFormat::w4a4;
}

void grid_row(const QuantDescription& quant, const SideValues& sides, std::int64_t row, std::span<const std::uint8_t> bytes,
              std::span<float> out) {
  const auto columns = static_cast<std::int64_t>(out.size());
  switch (quant.format) {
    case QuantFormat::w4a8:
      return grid_4bit(sides, row * (columns / quant.group), quant.group, bytes.data(), out);
    case QuantFormat::w6a8:
      return grid_6bit(sides, row * (columns / quant.group), quant.group, bytes.data(), out);
    case QuantFormat::w4a4:
      return look_up<FirstNibble::low>(bytes.data(), columns, sides.table.data(), out.data());
    default:
      return widen(bytes, out);
  }
}

void decode_row(const QuantDescription& quant, const SideValues& sides, std::int64_t row, std::span<const std::uint8_t> bytes,
                std::span<float> out) {
  switch (quant.format) {
    case QuantFormat::int8:
    case QuantFormat::w4a8:
    case QuantFormat::w6a8:
    case QuantFormat::w4a4:
      return decode_grid(quant, sides, row, bytes, out);
    case QuantFormat::fp8_e4m3:
      return decode_fp8(DType::f8_e4m3, sides.row_scale_at(row), bytes, out);
    case QuantFormat::fp8_e5m2:
      return decode_fp8(DType::f8_e5m2, sides.row_scale_at(row), bytes, out);
    case QuantFormat::mxfp8:
      return decode_mxfp8(quant, sides, row, bytes, out);
    case QuantFormat::nvfp4:
      return decode_nvfp4(quant, sides, row, bytes, out);
    case QuantFormat::awq_w4a16:
      return look_up_groups<FirstNibble::low>(
          sides, row * (static_cast<std::int64_t>(out.size()) / quant.group), quant.group, bytes.data(), out,
          [&sides](float value, float scale, std::int64_t g) { return value * scale + sides.group_offset[static_cast<std::size_t>(g)]; });
    case QuantFormat::nf4:
      break;  // its blocks know nothing of rows
  }
  __builtin_unreachable();
}

void decode_nf4(const QuantDescription& quant, const SideValues& sides, std::int64_t first, std::span<const std::uint8_t> bytes,
                std::span<float> out) {
  const auto count = static_cast<std::int64_t>(out.size()), first_byte = first / 2;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t at = first + done, block = at / quant.group;
    const std::int64_t length = std::min((block + 1) * quant.group - at, count - done);
    Table table;
    for (std::size_t code = 0; code < 16; ++code) table[code] = round_to(quant.rounding, sides.table[code] * sides.group_scale.at(block));
    std::int64_t i = at;
    if (i % 2 != 0) out[static_cast<std::size_t>(i++ - first)] = table[bytes[static_cast<std::size_t>(at / 2 - first_byte)] & 15u];
    look_up<FirstNibble::high>(bytes.data() + (i / 2 - first_byte), at + length - i, table.data(), out.data() + (i - first));
    done += length;
  }
}

}  // namespace tritium
