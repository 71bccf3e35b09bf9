// The Qwen3-VL vision tower: patches of pictures and reference videos to the rows that take the place of their tokens (spec/text.md §4).
#pragma once

#include "model/vision/weights.h"

#include <functional>

namespace tritium {

enum class VisionModality { image, video };  // only names the intermediates: "vision.image.frame0.block3.out"

class VisionTower {
 public:
  // The device outlives the tower.
  static Result<VisionTower> load(Device& device, const WeightPart& part, const VisionConfig& config, MatrixPolicy policy,
                                  const CancelToken* cancel = nullptr, const LoadProgress& progress = {});

  // Bytes the weights take on the device, after checking names and shapes against the configuration.
  static Result<std::uint64_t> weight_bytes(const WeightPart& part, const VisionConfig& config, MatrixPolicy policy) {
    return vision_weight_bytes(part, config, policy);
  }
  // Estimate of what encode() takes besides the weights, its input and its result. Grows linearly with h·w, whatever t is.
  static std::uint64_t working_bytes(const VisionConfig& config, const PatchGrid& grid);

  // `patches` [all patches of `grids`][features], as cut_patches makes them -> per 2x2 patches one merged row and one row in every
  // deepstack set, in the order of the pad tokens. Pictures do not influence each other: whoever is short of memory encodes them one
  // by one and appends the results. `progress` counts transformer blocks over all temporal blocks.
  // Errors: failure (grids with odd sides, or that do not fit the patches), does_not_fit, rejected (values not finite), interrupted.
  Result<VisionRows> encode(VisionModality modality, std::span<const float> patches, std::span<const PatchGrid> grids,
                            const CancelToken* cancel = nullptr, const std::function<void(int done, int total)>& progress = {}) const;

  [[nodiscard]] const VisionConfig& config() const { return config_; }

 private:
  VisionTower(Device& device, const VisionConfig& config, VisionWeights weights)
      : device_(&device), config_(config), weights_(std::move(weights)) {}
  Result<void> check_input(std::span<const float> patches, std::span<const PatchGrid> grids) const;

  Device* device_;
  VisionConfig config_;
  VisionWeights weights_;
};

}  // namespace tritium
