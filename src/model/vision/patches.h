// Pixels to the rows that the vision tower reads. Source: spec/text.md §5.3.
#pragma once

#include "base/picture.h"
#include "model/geometry/vision_rows.h"

#include <tritium/result.h>

#include <span>
#include <vector>

namespace tritium {

// One patch covers side x side pixels of `frames` frames; merge x merge patches become one token.
struct PatchShape {
  int side = 16, frames = 2, merge = 2;

  [[nodiscard]] int factor() const { return side * merge; }  // sides of pictures are multiples of this
  [[nodiscard]] std::int64_t features() const { return std::int64_t{3} * frames * side * side; }
  [[nodiscard]] std::int64_t group() const { return std::int64_t{merge} * merge; }
  bool operator==(const PatchShape&) const = default;
};

// values [grid.patches()][features] row-major, (pixel - 127.5) / 127.5. Rows: temporal block, then groups of merge x merge patches row by
// row, then the patches of a group. Features: channel, frame, row, column.
struct PatchRows {
  std::vector<float> values;
  PatchGrid grid;
};

// `frames`: pictures of one size, both sides multiples of factor(); the last one is repeated until the number fits. A picture is one frame.
// Error (failure): no frames, or frames that are not of that kind.
Result<PatchRows> cut_patches(std::span<const PictureView> frames, const PatchShape& shape);

}  // namespace tritium
