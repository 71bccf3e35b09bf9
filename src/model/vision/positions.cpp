#include "model/vision/positions.h"

#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

constexpr double kTheta = 10000;

// Coordinates on the table's axis: `count` equally spaced values from its first to its last row.
struct Tap {
  std::int64_t low = 0, high = 0;
  double fraction = 0;  // weight of `high`
};

std::vector<Tap> axis_taps(std::int64_t count, std::int64_t table_side) {
  std::vector<Tap> out;
  const std::int64_t last = table_side - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const double at = count == 1 ? 0.0 : static_cast<double>(i * last) / static_cast<double>(count - 1);
    const auto low = static_cast<std::int64_t>(at);
    out.push_back({low, std::min(low + 1, last), at - static_cast<double>(low)});
  }
  return out;
}

}  // namespace

std::vector<PatchPosition> patch_positions(const PatchGrid& grid, int merge) {
  std::vector<PatchPosition> out;
  out.reserve(static_cast<std::size_t>(grid.h * grid.w));
  for (std::int64_t row = 0; row < grid.h; row += merge)
    for (std::int64_t column = 0; column < grid.w; column += merge)
      for (std::int64_t i = 0; i < merge; ++i)
        for (std::int64_t j = 0; j < merge; ++j) out.push_back({row + i, column + j});
  return out;
}

std::vector<float> vision_angles(const VisionConfig& config, const PatchGrid& grid) {
  const auto pairs = static_cast<std::size_t>(config.head_dim() / 2);
  std::vector<float> frequency(pairs / 2);
  for (std::size_t i = 0; i < frequency.size(); ++i)
    frequency[i] = static_cast<float>(1.0 / std::pow(kTheta, 2.0 * static_cast<double>(i) / static_cast<double>(pairs)));
  std::vector<float> angles;
  angles.reserve(static_cast<std::size_t>(grid.h * grid.w) * pairs);
  for (const PatchPosition& position : patch_positions(grid, config.patch.merge))
    for (const std::int64_t coordinate : {position.row, position.column})
      for (const float f : frequency) angles.push_back(static_cast<float>(coordinate) * f);
  return angles;
}

PositionBlend position_blend(const VisionConfig& config, const PatchGrid& grid) {
  const std::vector<Tap> rows = axis_taps(grid.h, config.table_side), columns = axis_taps(grid.w, config.table_side);
  PositionBlend out;
  for (const PatchPosition& position : patch_positions(grid, config.patch.merge)) {
    const Tap& row = rows[static_cast<std::size_t>(position.row)];
    const Tap& column = columns[static_cast<std::size_t>(position.column)];
    for (std::size_t corner = 0; corner < 4; ++corner) {
      const bool below = corner >= 2, right = corner % 2 == 1;
      out.rows[corner].push_back(
          static_cast<std::int32_t>((below ? row.high : row.low) * config.table_side + (right ? column.high : column.low)));
      out.weights[corner].push_back(
          static_cast<float>((below ? row.fraction : 1 - row.fraction) * (right ? column.fraction : 1 - column.fraction)));
    }
  }
  return out;
}

}  // namespace tritium
