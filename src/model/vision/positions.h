// Where each patch of a frame lies, and what the vision tower derives from that. All lists are in the order of the patch rows: groups of
// merge x merge patches row by row, then the patches of a group. Source: spec/text.md §4, points 2 and 3.
#pragma once

#include "model/vision/vision_config.h"

#include <array>

namespace tritium {

struct PatchPosition {
  std::int64_t row = 0, column = 0;
};
// Of one temporal block; grid.t is not looked at.
std::vector<PatchPosition> patch_positions(const PatchGrid& grid, int merge);

// Angles [h·w][head_dim/2]: the first half turns with the row, the second with the column.
std::vector<float> vision_angles(const VisionConfig& config, const PatchGrid& grid);

// The learned position of a patch: a blend of four rows of the table, whose corners lie on the corner patches.
struct PositionBlend {
  std::array<std::vector<std::int32_t>, 4> rows;  // [h·w] each
  std::array<std::vector<float>, 4> weights;      // [h·w] each
};
PositionBlend position_blend(const VisionConfig& config, const PatchGrid& grid);

}  // namespace tritium
