#include "model/vision/tower.h"

#include "base/try.h"
#include "model/vision/frame.h"

#include <fmt/format.h>
#include <algorithm>
#include <optional>

namespace tritium {
namespace {

constexpr std::int64_t kMaxPatchSide = 1 << 16;  // keeps products of sides inside 64 bits
constexpr std::int64_t kMaxBlocks = 1 << 16;

}  // namespace

Result<VisionTower> VisionTower::load(Device& device, const WeightPart& part, const VisionConfig& config, MatrixPolicy policy,
                                      const CancelToken* cancel, const LoadProgress& progress) {
  TRITIUM_TRY_ASSIGN(VisionWeights weights, load_vision_weights(device, part, config, policy, cancel, progress));
  return VisionTower(device, config, std::move(weights));
}

std::uint64_t VisionTower::working_bytes(const VisionConfig& config, const PatchGrid& grid) { return VisionFrame::bytes(config, grid); }

Result<void> VisionTower::check_input(std::span<const float> patches, std::span<const PatchGrid> grids) const {
  const auto refuse = [](std::string what) {
    return Error{ErrorCode::failure, "internal error in the vision tower: " + std::move(what), "", ""};
  };
  std::int64_t rows = 0, blocks = 0;
  for (const PatchGrid& grid : grids) {
    const bool whole = grid.h % config_.patch.merge == 0 && grid.w % config_.patch.merge == 0;
    if (!whole || std::min({grid.t, grid.h, grid.w}) < 1 || std::max(grid.h, grid.w) > kMaxPatchSide || grid.t > kMaxBlocks - blocks)
      return refuse(fmt::format("{}x{}x{} patches; sides must be positive multiples of {}", grid.t, grid.h, grid.w, config_.patch.merge));
    blocks += grid.t;
    rows = std::min(rows + grid.patches(), std::int64_t{1} << 40);
  }
  if (static_cast<std::int64_t>(patches.size()) != rows * config_.patch.features())
    return refuse(fmt::format("{} values do not fill {} patches of {}", patches.size(), rows, config_.patch.features()));
  return {};
}

Result<VisionRows> VisionTower::encode(VisionModality modality, std::span<const float> patches, std::span<const PatchGrid> grids,
                                       const CancelToken* cancel, const std::function<void(int, int)>& progress) const {
  TRITIUM_TRY(check_input(patches, grids));
  std::int64_t blocks = 0, done = 0;
  for (const PatchGrid& grid : grids) blocks += grid.t;
  const auto block_done = [&] {
    if (progress) progress(static_cast<int>(++done), static_cast<int>(blocks * config_.depth));
  };
  VisionRows out;
  out.deepstack.resize(weights_.deepstack.size());
  std::optional<VisionFrame> frame;
  std::size_t first = 0;
  int number = 0;
  for (const PatchGrid& grid : grids) {
    if (!frame || !frame->fits(grid)) {
      frame.reset();  // before the next one is allocated
      frame.emplace(*device_, config_, weights_, grid);
      TRITIUM_TRY(frame->allocate());
    }
    const auto values = static_cast<std::size_t>(frame->rows() * config_.patch.features());
    for (std::int64_t t = 0; t < grid.t; ++t, first += values, ++number) {
      const std::string scope = fmt::format("vision.{}.frame{}", modality == VisionModality::image ? "image" : "video", number);
      TRITIUM_TRY(frame->encode(scope, patches.subspan(first, values), out, cancel, block_done));
    }
  }
  return out;
}

}  // namespace tritium
