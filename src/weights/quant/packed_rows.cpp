#include "weights/quant/packed_rows.h"

#include "base/try.h"
#include "weights/quant/row_kernels.h"

#include <algorithm>
#include <cstring>

namespace tritium {
namespace {

bool plain_packable(const LogicalTensor& tensor) {
  const DType type = tensor.stored->dtype;
  if (tensor.shape.size() < 2 || type == DType::f32 || type == DType::bf16 || type == DType::f64) return false;
  return tensor.shape[0] > 0 && tensor.elements() / tensor.shape[0] % dtype_block(type).values == 0;
}

// Rows must begin with a byte, and NF4's scales with a row.
bool quant_packable(const LogicalTensor& tensor) {
  if (tensor.shape.size() != 2 || tensor.shape[0] < 1) return false;
  if (tensor.quant->format == QuantFormat::nf4) return tensor.shape[1] % 2 == 0 && tensor.shape[1] % tensor.quant->group == 0;
  return tensor.stored->bytes % static_cast<std::uint64_t>(tensor.shape[0]) == 0;
}

bool alike(const LogicalTensor& a, const LogicalTensor& b) {
  if (a.quant.has_value() != b.quant.has_value() || a.shape.size() != b.shape.size()) return false;
  if (!std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1)) return false;
  if (!a.quant) return a.stored->dtype == b.stored->dtype;
  // What one has beside its codes and the other has not would be missing from the factors they share.
  const SideTensors &mine = a.quant->sides, &theirs = b.quant->sides;
  const auto both = [&](auto member) { return (mine.*member == nullptr) == (theirs.*member == nullptr); };
  return a.quant->format == b.quant->format && a.quant->rotation == b.quant->rotation && a.quant->group == b.quant->group &&
         mine.pre_quant_scale == nullptr && theirs.pre_quant_scale == nullptr && both(&SideTensors::scale) &&
         both(&SideTensors::channel_scale) && both(&SideTensors::correction);
}

}  // namespace

bool PackedRows::possible(const PlacedTensor& tensor) {
  if (!tensor.found()) return false;
  const LogicalTensor& first = *tensor.sources.front();
  return std::all_of(tensor.sources.begin(), tensor.sources.end(), [&](const LogicalTensor* source) {
    return (source->quant ? quant_packable(*source) : plain_packable(*source)) && (source == &first || alike(first, *source));
  });
}

Result<PackedRows> PackedRows::open(const WeightPart& part, const PlacedTensor& tensor) {
  TRITIUM_TRY_ASSIGN(const PartRows rows, PartRows::open(part, tensor));
  PackedRows out;
  out.columns_ = rows.columns();
  const LogicalTensor& first = *tensor.sources.front();
  out.row_bytes_ = static_cast<std::size_t>(first.stored->bytes / static_cast<std::uint64_t>(rows.readers().front().rows()));
  out.rotation_ = first.quant ? first.quant->rotation : 0;
  std::vector<std::vector<float>> scales;  // per source and row; empty: 1
  for (const MatrixReader& reader : rows.readers()) {
    Source source{reader.quant(), reader.tensor().stored->dtype, reader.sides(), {}};
    std::vector<float> scale;
    if (source.sides.group_offset.empty() || !source.quant || !has_integer_grid(*source.quant))
      scale = reader.row_scales();
    else
      source.base_scale = reader.row_scales();
    if (source.sides.tensor_scale != 1) scale.assign(static_cast<std::size_t>(reader.rows()), source.sides.tensor_scale);
    if (!source.sides.column_factor.empty()) out.column_factor_ = source.sides.column_factor;
    source.sides.row_scale.clear();
    source.sides.tensor_scale = 1;
    source.sides.column_factor.clear();
    scales.push_back(std::move(scale));
    out.sources_.push_back(std::move(source));
  }
  out.origin_.resize(static_cast<std::size_t>(rows.rows()));
  const bool scaled = std::any_of(scales.begin(), scales.end(), [](const auto& s) { return !s.empty(); });
  if (scaled) out.row_scale_.assign(out.origin_.size(), 1.0f);
  TRITIUM_TRY(rows.for_each_source_run(
      0, rows.rows(), [&](std::size_t source, std::int64_t begin, std::int64_t count, std::int64_t position) -> Result<void> {
        for (std::int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<std::size_t>(position + i);
          out.origin_[at] = {static_cast<std::uint32_t>(source), static_cast<std::uint32_t>(begin + i)};
          if (!scales[source].empty()) out.row_scale_[at] = scales[source][static_cast<std::size_t>(begin + i)];
        }
        return {};
      }));
  return out;
}

bool PackedRows::meant_for_integers(const PlacedTensor& tensor) {
  return possible(tensor) && std::all_of(tensor.sources.begin(), tensor.sources.end(), [](const LogicalTensor* source) {
           return source->quant && has_integer_grid(*source->quant) && source->quant->rotation != 0 && !source->quant->full_precision &&
                  source->quant->sides.correction == nullptr && source->quant->sides.pre_quant_scale == nullptr;
         });
}

void PackedRows::decode_row_of(const Source& source, std::int64_t row, std::span<const std::uint8_t> bytes, std::span<float> out) const {
  if (!source.quant) return convert_to_f32(source.dtype, bytes, out);
  if (source.quant->format == QuantFormat::nf4) return decode_nf4(*source.quant, source.sides, row * columns_, bytes, out);
  if (!has_integer_grid(*source.quant)) return decode_row(*source.quant, source.sides, row, bytes, out);
  grid_row(*source.quant, source.sides, row, bytes, out);
  if (source.base_scale.empty()) return;
  const auto group = static_cast<std::size_t>(source.quant->group), groups = out.size() / group;
  const float scale = source.base_scale[static_cast<std::size_t>(row)];
  for (std::size_t g = 0; g < groups; ++g) {
    const float offset = source.sides.group_offset[static_cast<std::size_t>(row) * groups + g];
    for (float& v : out.subspan(g * group, group)) v = v * scale + offset;
  }
}

const std::uint8_t* PackedRows::stored_row(std::int64_t row, const std::uint8_t* bytes) const {
  const std::size_t at = file_order_ ? origin_[static_cast<std::size_t>(row)].row : static_cast<std::size_t>(row);
  return bytes + at * row_bytes_;
}

const std::int8_t* PackedRows::stored_integers(std::int64_t row, const std::uint8_t* bytes) const {
  const Source& source = sources_[origin_[static_cast<std::size_t>(row)].source];
  if (!source.quant || source.quant->format != QuantFormat::int8 || !source.base_scale.empty()) return nullptr;
  return reinterpret_cast<const std::int8_t*>(stored_row(row, bytes));
}

const std::uint16_t* PackedRows::stored_halves(std::int64_t row, const std::uint8_t* bytes) const {
  const Source& source = sources_[origin_[static_cast<std::size_t>(row)].source];
  if (source.quant || source.dtype != DType::f16) return nullptr;
  const std::uint8_t* stored = stored_row(row, bytes);
  return reinterpret_cast<std::uintptr_t>(stored) % alignof(std::uint16_t) == 0 ? reinterpret_cast<const std::uint16_t*>(stored) : nullptr;
}

std::optional<FourBitRow> PackedRows::four_bit_row(std::int64_t row, const std::uint8_t* bytes) const {
  const Origin origin = origin_[static_cast<std::size_t>(row)];
  const Source& source = sources_[origin.source];
  if (!source.quant || !source.base_scale.empty()) return std::nullopt;
  const QuantFormat format = source.quant->format;
  const bool rounded_as_is = source.quant->rounding == DType::bf16 || source.quant->rounding == DType::f32;
  const bool known = format == QuantFormat::w4a8 || format == QuantFormat::w4a4 || (format == QuantFormat::nf4 && rounded_as_is);
  const std::int64_t group = format == QuantFormat::w4a4 ? columns_ : source.quant->group;
  if (!known || group % 16 != 0 || columns_ % group != 0 || source.sides.table.size() != 16) return std::nullopt;
  FourBitRow out{};
  out.codes = stored_row(row, bytes);
  out.table = source.sides.table.data();
  out.group = group;
  out.low_first = format != QuantFormat::nf4;
  out.integers = format != QuantFormat::nf4;
  if (format == QuantFormat::w4a4) return out;
  const GroupScales& scales = source.sides.group_scale;
  const auto first = static_cast<std::ptrdiff_t>(origin.row) * (columns_ / group);
  if (scales.codes.empty()) {
    out.scales = scales.values.data() + first;
  } else {
    out.scale_codes = scales.codes.data() + first;
    out.scale_table = scales.table.data();
  }
  return out;
}

void PackedRows::decode_integers(std::int64_t begin, std::int64_t end, const std::uint8_t* bytes, std::int64_t stride,
                                 std::int8_t* out) const {
  const auto width = static_cast<std::size_t>(columns_);
  for (std::int64_t row = begin; row < end; ++row, out += stride) {
    const Origin origin = origin_[static_cast<std::size_t>(row)];
    const Source& source = sources_[origin.source];
    const std::span stored(stored_row(row, bytes), row_bytes_);
    if (source.quant->format == QuantFormat::int8) {
      std::memcpy(out, stored.data(), width);
      continue;
    }
    thread_local std::vector<float> values;
    values.resize(width);
    grid_row(*source.quant, source.sides, origin.row, stored, values);
    for (std::size_t i = 0; i < width; ++i) out[i] = static_cast<std::int8_t>(values[i]);
  }
}

void PackedRows::decode(std::int64_t begin, std::int64_t end, const std::uint8_t* bytes, float* out) const {
  const auto width = static_cast<std::size_t>(columns_);
  for (std::int64_t row = begin; row < end; ++row, out += width) {
    const Origin origin = origin_[static_cast<std::size_t>(row)];
    decode_row_of(sources_[origin.source], origin.row, {stored_row(row, bytes), row_bytes_}, {out, width});
  }
}

}  // namespace tritium
