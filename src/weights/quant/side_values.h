// The side tensors of a quantized matrix in memory: finite, in the order of the rows, ready for the formulas of spec/weights.md §4.
#pragma once

#include "weights/quant/logical_tensors.h"

namespace tritium {

// Scales of groups, kept as bytes where the file has 8-bit floats.
struct GroupScales {
  std::vector<std::uint8_t> codes;
  std::array<float, 256> table{};  // value of each code
  std::vector<float> values;       // used when there are no codes
  [[nodiscard]] float at(std::int64_t i) const {
    const auto index = static_cast<std::size_t>(i);
    return codes.empty() ? values[index] : table[codes[index]];
  }
};

struct SideValues {
  std::vector<float> row_scale;      // [N], or [1] for all rows; empty: 1
  GroupScales group_scale;           // [N, K/group]; NF4: [blocks], E4M3 or E8M0 codes where stored so
  std::vector<float> group_offset;   // w4a8 correction and AWQ zeros: [N, K/group]; else empty
  std::vector<float> table;          // value of each 4-bit code, [16]; else empty
  float tensor_scale = 1;            // nvfp4
  std::vector<float> column_factor;  // nvfp4 pre_quant_scale: [K]; else empty
  [[nodiscard]] float row_scale_at(std::int64_t row) const {
    if (row_scale.empty()) return 1;
    return row_scale.size() == 1 ? row_scale[0] : row_scale[static_cast<std::size_t>(row)];
  }
};

// Error code model, field = tensor: a value that is not finite (its position is named), or the file cannot be read.
// Precondition: tensor.quant.
Result<SideValues> load_side_values(const Checkpoint& checkpoint, const LogicalTensor& tensor);

}  // namespace tritium
