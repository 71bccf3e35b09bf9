#include "weights/quant/side_values.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

constexpr std::array<float, 8> kE2m1 = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};  // §4.7

Error not_finite(const Checkpoint& checkpoint, const TensorInfo& tensor, std::size_t index) {
  return Error{ErrorCode::model, fmt::format("value {} is not finite in '{}'", index, file_holding(checkpoint, tensor.name)), tensor.name,
               "the file is damaged: download it again"};
}

Result<void> check_finite(const Checkpoint& checkpoint, const TensorInfo& tensor, const std::vector<float>& values) {
  const auto found = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  if (found != values.end()) return not_finite(checkpoint, tensor, static_cast<std::size_t>(found - values.begin()));
  return {};
}

Result<std::vector<float>> finite_values(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  TRITIUM_TRY_ASSIGN(std::vector<float> values, checkpoint.read_f32(tensor));
  TRITIUM_TRY(check_finite(checkpoint, tensor, values));
  return values;
}

Result<std::vector<std::uint8_t>> bytes_of(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::vector<std::uint8_t> bytes(tensor.bytes);
  TRITIUM_TRY(checkpoint.read(tensor, bytes));
  return bytes;
}

Result<void> check_codes(const Checkpoint& checkpoint, const TensorInfo& tensor, const GroupScales& scales) {
  std::array<bool, 256> refused{};
  for (std::size_t code = 0; code < 256; ++code) refused[code] = !std::isfinite(scales.table[code]);
  const auto found = std::find_if(scales.codes.begin(), scales.codes.end(), [&](std::uint8_t code) { return refused[code]; });
  if (found != scales.codes.end()) return not_finite(checkpoint, tensor, static_cast<std::size_t>(found - scales.codes.begin()));
  return {};
}

template <class T>
std::vector<T> transposed(const std::vector<T>& in, std::int64_t rows, std::int64_t columns) {  // in: [columns, rows]
  std::vector<T> out(in.size());
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r) out[static_cast<std::size_t>(r * columns + c)] = in[static_cast<std::size_t>(c * rows + r)];
  return out;
}

// From tiles of 128 rows x 4 columns, 512 bytes each, to rows; padding is dropped (§4.7).
std::vector<std::uint8_t> untiled(const std::vector<std::uint8_t>& tiles, std::int64_t rows, std::int64_t columns) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(rows * columns));
  const std::int64_t tile_columns = (columns + 3) / 4;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t in_tile = (r % 32) * 16 + (r % 128) / 32 * 4;
    for (std::int64_t c = 0; c < columns; ++c)
      out[static_cast<std::size_t>(r * columns + c)] =
          tiles[static_cast<std::size_t>((r / 128 * tile_columns + c / 4) * 512 + in_tile + c % 4)];
  }
  return out;
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const LogicalTensor& tensor)
      : checkpoint_(checkpoint), tensor_(tensor), quant_(*tensor.quant), sides_(quant_.sides) {}

  Result<SideValues> load() {
    TRITIUM_TRY(load_format());
    if (sides_.input_scale != nullptr) {  // not used, but a damaged one tells of a damaged file
      TRITIUM_TRY(finite_values(checkpoint_, *sides_.input_scale));
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::int64_t rows() const { return tensor_.shape[0]; }
  [[nodiscard]] std::int64_t groups() const { return tensor_.shape[1] / quant_.group; }

  Result<void> load_format() {
    switch (quant_.format) {
      case QuantFormat::fp8_e4m3:
      case QuantFormat::fp8_e5m2:
      case QuantFormat::int8:
        return load_row_scale(sides_.scale);
      case QuantFormat::w4a4:
        for (int code = 0; code < 16; ++code) out_.table.push_back(static_cast<float>(code < 8 ? code : code - 16));
        return load_row_scale(sides_.scale);
      case QuantFormat::w4a8:
      case QuantFormat::w6a8:
        return load_grouped_int8();
      case QuantFormat::nvfp4:
        return load_nvfp4();
      case QuantFormat::mxfp8:
        out_.group_scale.table = f8_values(DType::f8_e8m0);
        out_.group_scale.table[0] = 0;  // §4.8
        return load_tiled_scales();
      case QuantFormat::awq_w4a16:
        return load_awq();
      case QuantFormat::nf4:
        return load_nf4();
    }
    __builtin_unreachable();
  }

  Result<void> load_row_scale(const TensorInfo* scale) {
    if (scale == nullptr) return {};  // a plain cast
    TRITIUM_TRY_ASSIGN(out_.row_scale, finite_values(checkpoint_, *scale));
    return {};
  }

  Result<void> load_grouped_int8() {
    TRITIUM_TRY(load_row_scale(sides_.channel_scale));
    const TensorInfo& scale = *sides_.group_scale;
    if (scale.dtype == DType::u8 || scale.dtype == DType::f8_e4m3) {
      out_.group_scale.table = f8_values(DType::f8_e4m3);
      TRITIUM_TRY_ASSIGN(out_.group_scale.codes, bytes_of(checkpoint_, scale));
      TRITIUM_TRY(check_codes(checkpoint_, scale, out_.group_scale));
    } else {
      TRITIUM_TRY_ASSIGN(out_.group_scale.values, finite_values(checkpoint_, scale));
    }
    if (sides_.correction != nullptr) {
      TRITIUM_TRY_ASSIGN(const std::vector<float> correction, finite_values(checkpoint_, *sides_.correction));
      out_.group_offset = transposed(correction, rows(), groups());
    }
    if (quant_.format == QuantFormat::w6a8) return {};
    if (sides_.codebook != nullptr) {
      TRITIUM_TRY_ASSIGN(out_.table, finite_values(checkpoint_, *sides_.codebook));
    } else {
      centred_table();
    }
    return {};
  }

  void centred_table() {
    for (int code = 0; code < 16; ++code) out_.table.push_back(static_cast<float>(code - 8));
  }

  Result<void> load_tiled_scales() {
    TRITIUM_TRY_ASSIGN(const std::vector<std::uint8_t> tiles, bytes_of(checkpoint_, *sides_.scale));
    out_.group_scale.codes = untiled(tiles, rows(), groups());
    return check_codes(checkpoint_, *sides_.scale, out_.group_scale);
  }

  Result<void> load_nvfp4() {
    for (int code = 0; code < 16; ++code)
      out_.table.push_back(code < 8 ? kE2m1[static_cast<std::size_t>(code)] : -kE2m1[static_cast<std::size_t>(code - 8)]);
    out_.group_scale.table = f8_values(DType::f8_e4m3);
    TRITIUM_TRY(load_tiled_scales());
    TRITIUM_TRY_ASSIGN(const std::vector<float> scale, finite_values(checkpoint_, *sides_.scale_2));
    out_.tensor_scale = scale[0];
    if (sides_.pre_quant_scale != nullptr) { TRITIUM_TRY_ASSIGN(out_.column_factor, finite_values(checkpoint_, *sides_.pre_quant_scale)); }
    return {};
  }

  Result<void> load_awq() {
    centred_table();
    TRITIUM_TRY_ASSIGN(const std::vector<float> scale, finite_values(checkpoint_, *sides_.scale));
    TRITIUM_TRY_ASSIGN(const std::vector<float> zeros, finite_values(checkpoint_, *sides_.zeros));
    out_.group_scale.values = transposed(scale, rows(), groups());
    out_.group_offset = transposed(zeros, rows(), groups());
    return {};
  }

  Result<void> load_nf4() {
    TRITIUM_TRY_ASSIGN(out_.table, finite_values(checkpoint_, *sides_.quant_map));
    std::vector<float>& scales = out_.group_scale.values;
    if (quant_.nested_group == 0) {
      TRITIUM_TRY_ASSIGN(scales, finite_values(checkpoint_, *sides_.absmax));
      return {};
    }
    TRITIUM_TRY_ASSIGN(const std::vector<std::uint8_t> codes, bytes_of(checkpoint_, *sides_.absmax));
    TRITIUM_TRY_ASSIGN(const std::vector<float> map, finite_values(checkpoint_, *sides_.nested_quant_map));
    TRITIUM_TRY_ASSIGN(const std::vector<float> absmax, finite_values(checkpoint_, *sides_.nested_absmax));
    scales.resize(codes.size());
    const auto nested = static_cast<std::size_t>(quant_.nested_group);
    for (std::size_t b = 0; b < scales.size(); ++b) scales[b] = map[codes[b]] * absmax[b / nested] + quant_.nested_offset;
    return check_finite(checkpoint_, *sides_.absmax, scales);
  }

  const Checkpoint& checkpoint_;
  const LogicalTensor& tensor_;
  const QuantDescription& quant_;
  const SideTensors& sides_;
  SideValues out_;
};

}  // namespace

Result<SideValues> load_side_values(const Checkpoint& checkpoint, const LogicalTensor& tensor) { return Loader(checkpoint, tensor).load(); }

}  // namespace tritium
