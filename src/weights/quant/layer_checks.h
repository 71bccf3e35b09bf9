// Checks shared by the descriptions of all quantized formats. Errors: code model, field = tensor.
#pragma once

#include "weights/quant/description.h"

#include <initializer_list>

namespace tritium {

constexpr std::int64_t kMaxQuantDim = std::int64_t{1} << 31;  // products of two dimensions stay far from overflow

using Side = const TensorInfo* SideTensors::*;

class LayerChecks {
 public:
  // Both must outlive the checks. `format` is the name used in errors.
  LayerChecks(const LayerFacts& facts, std::string_view format) : facts_(facts), format_(format) {}

  [[nodiscard]] Error bad(const TensorInfo& tensor, const std::string& what) const;

  // The codes: one of these types, two dimensions, at least one column.
  [[nodiscard]] Result<void> codes(std::initializer_list<DType> types) const;
  [[nodiscard]] Result<void> type(const TensorInfo& tensor, std::initializer_list<DType> types) const;
  [[nodiscard]] Result<void> real(const TensorInfo& tensor) const { return type(tensor, {DType::f32, DType::bf16, DType::f16}); }

  // A side tensor that must be there.
  [[nodiscard]] Result<const TensorInfo*> required(Side side) const;

  [[nodiscard]] Result<void> shape(const TensorInfo& tensor, std::initializer_list<std::vector<std::int64_t>> allowed) const;
  [[nodiscard]] Result<void> single_value(const TensorInfo& tensor) const { return shape(tensor, {{}, {1}, {1, 1}}); }
  // A scale per row or one for all.
  [[nodiscard]] Result<void> row_scale(const TensorInfo& tensor, std::int64_t rows) const;
  // Scales of groups along K in 128 x 4 tiles, padded to whole tiles (spec/weights.md §4.7).
  [[nodiscard]] Result<void> tiled_scale(const TensorInfo& tensor, std::int64_t rows, std::int64_t groups) const;

  // Side tensors beyond `used` would change the weights in a way the format does not know. Scales of activations are left alone.
  [[nodiscard]] Result<void> nothing_but(std::initializer_list<Side> used) const;

  [[nodiscard]] Result<void> divides(const char* what, std::int64_t group, std::int64_t columns) const;
  // ConvRot: the group is a power of 4 and divides K (§4.1).
  [[nodiscard]] Result<void> rotation(std::int64_t group, std::int64_t columns) const;

 private:
  const LayerFacts& facts_;
  std::string_view format_;
};

}  // namespace tritium
