#include "weights/quant/layer_checks.h"

#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>

namespace tritium {

Error LayerChecks::bad(const TensorInfo& tensor, const std::string& what) const {
  return Error{ErrorCode::model, fmt::format("{}, format {}", what, format_), tensor.name, ""};
}

Result<void> LayerChecks::codes(std::initializer_list<DType> types) const {
  const TensorInfo& weight = *facts_.weight;
  TRITIUM_TRY(type(weight, types));
  if (weight.shape.size() != 2) return bad(weight, fmt::format("its shape is {}, expected two dimensions", shape_text(weight.shape)));
  if (weight.shape[1] < 1 || weight.shape[1] >= kMaxQuantDim || weight.shape[0] >= kMaxQuantDim)
    return bad(weight, fmt::format("its shape is {}, expected at least one column and dimensions below 2^31", shape_text(weight.shape)));
  return {};
}

Result<void> LayerChecks::type(const TensorInfo& tensor, std::initializer_list<DType> types) const {
  if (std::find(types.begin(), types.end(), tensor.dtype) != types.end()) return {};
  std::vector<std::string_view> names;
  for (const DType allowed : types) names.push_back(dtype_name(allowed));
  return bad(tensor, fmt::format("its type is {}, expected {}", dtype_name(tensor.dtype), fmt::join(names, " or ")));
}

Result<const TensorInfo*> LayerChecks::required(Side side) const {
  if (facts_.sides.*side != nullptr) return facts_.sides.*side;
  const auto* name = std::find_if(kSideNames.begin(), kSideNames.end(), [side](const SideName& n) { return n.member == side; });
  return Error{ErrorCode::model, fmt::format("it is missing, format {} needs it", format_), facts_.layer + std::string(name->suffix),
               "the file is incomplete or of another kind than it says"};
}

Result<void> LayerChecks::shape(const TensorInfo& tensor, std::initializer_list<std::vector<std::int64_t>> allowed) const {
  if (std::find(allowed.begin(), allowed.end(), tensor.shape) != allowed.end()) return {};
  std::vector<std::string> texts;
  for (const auto& one : allowed) texts.push_back(shape_text(one));
  return bad(tensor, fmt::format("its shape is {}, expected {}", shape_text(tensor.shape), fmt::join(texts, " or ")));
}

Result<void> LayerChecks::row_scale(const TensorInfo& tensor, std::int64_t rows) const {
  TRITIUM_TRY(real(tensor));
  return shape(tensor, {{rows, 1}, {rows}, {1}, {}, {1, 1}});
}

Result<void> LayerChecks::tiled_scale(const TensorInfo& tensor, std::int64_t rows, std::int64_t groups) const {
  const std::int64_t padded_rows = (rows + 127) / 128 * 128, padded_groups = (groups + 3) / 4 * 4;
  return shape(tensor, {{padded_rows, padded_groups}, {padded_rows * padded_groups}});
}

Result<void> LayerChecks::nothing_but(std::initializer_list<Side> used) const {
  for (const SideName& name : kSideNames) {
    const TensorInfo* tensor = facts_.sides.*name.member;
    if (tensor == nullptr || name.member == &SideTensors::input_scale) continue;
    if (std::find(used.begin(), used.end(), name.member) == used.end()) return bad(*tensor, "it does not belong to a weight of this kind");
  }
  if (const TensorInfo* input = facts_.sides.input_scale; input != nullptr) {
    TRITIUM_TRY(real(*input));
    return single_value(*input);
  }
  return {};
}

Result<void> LayerChecks::divides(const char* what, std::int64_t group, std::int64_t columns) const {
  if (columns % group == 0) return {};
  return bad(*facts_.weight, fmt::format("{} {} does not divide its {} columns", what, group, columns));
}

Result<void> LayerChecks::rotation(std::int64_t group, std::int64_t columns) const {
  std::int64_t power = 4;
  while (power < group) power *= 4;
  if (power != group) return bad(*facts_.weight, fmt::format("convrot_groupsize {} is not a power of 4 from 4 on", group));
  return divides("convrot_groupsize", group, columns);
}

}  // namespace tritium
