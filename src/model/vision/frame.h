// One temporal block on its way through the vision tower. Only the patches of one block attend to each other, so blocks are computed one
// after the other and the memory of the tower is that of the largest of them.
#pragma once

#include "model/vision/positions.h"
#include "model/vision/weights.h"
#include "ops/rope.h"

#include <functional>

namespace tritium {

inline constexpr std::int64_t kVisionSliceRows = 4096;

class VisionFrame {
 public:
  // For blocks of grid.h x grid.w patches, of which one graph computes at most about `slice_rows`. Device, configuration and weights
  // outlive it.
  VisionFrame(Device& device, const VisionConfig& config, const VisionWeights& weights, const PatchGrid& grid,
              std::int64_t slice_rows = kVisionSliceRows);

  Result<void> allocate();
  [[nodiscard]] bool fits(const PatchGrid& grid) const { return grid.h == grid_.h && grid.w == grid_.w; }
  [[nodiscard]] std::int64_t rows() const { return grid_.h * grid_.w; }

  // `patches` [rows()][features]; appends the block's rows to `out`. `scope` begins the names of intermediates ("vision.image.frame0").
  // `block_done` is called after every transformer block.
  Result<void> encode(const std::string& scope, std::span<const float> patches, VisionRows& out, const CancelToken* cancel,
                      const std::function<void()>& block_done);

  // Bytes taken while encoding, without the weights: what lives from graph to graph and the working memory of the largest graph.
  static std::uint64_t bytes(const VisionConfig& config, const PatchGrid& grid);

 private:
  struct Slice {
    std::int64_t first = 0, rows = 0;
    std::string scope;
  };
  // The rows in parts that one graph computes; their names continue `scope` with the first row where there are several.
  [[nodiscard]] std::vector<Slice> slices(const std::string& scope) const;
  Result<void> embed(const Slice& slice, std::span<const float> patches, const CancelToken* cancel);
  Result<void> project(const VisionBlockWeights& block, const Slice& slice, const CancelToken* cancel);
  Result<void> transform(const VisionBlockWeights& block, const Slice& slice, const CancelToken* cancel);
  Result<void> merge(const VisionMergerWeights& merger, const std::string& scope, std::vector<float>& out, const CancelToken* cancel);

  Device& device_;
  const VisionConfig& config_;
  const VisionWeights& weights_;
  PatchGrid grid_;
  std::int64_t slice_rows_;
  PositionBlend positions_;
  TensorPool pool_;
  ggml_tensor* state_ = nullptr;                            // [hidden, rows]
  ggml_tensor *q_ = nullptr, *k_ = nullptr, *v_ = nullptr;  // [head_dim, heads, rows], q and k rotated
  ops::RotaryTable rotary_;                                 // [head_dim/2, 1, rows]
};

}  // namespace tritium
