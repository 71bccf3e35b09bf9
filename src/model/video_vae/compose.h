// Putting decoded pieces together: tiles into the picture of one clip, clips into a video. All values in the decoder's normalized
// space. Source: spec/vae.md §1.7 (blending of tiles), §1.9 (cross-fade of clips).
#pragma once

#include "model/video_vae/tiling.h"

#include <tritium/result.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tritium::video_vae {

// Blends the tiles of one clip as they come, in reading order. A tile is [planes, tile height, tile width], the picture
// [planes, height, width]; a plane is one channel of one frame. Neighbours are blended with the raw tiles, so only the overlapped
// bottom strips of the row above and the right strip of the last tile are kept.
class TileComposer {
 public:
  TileComposer(AxisTiles rows, AxisTiles columns, int planes);

  // Precondition: called for every tile once, row by row, with a tile of the size given above.
  void place(std::vector<float> tile);
  // The finished picture; the composer is spent afterwards.
  [[nodiscard]] std::vector<float> take() { return std::move(picture_); }

 private:
  [[nodiscard]] std::vector<float> bottom_strip(const std::vector<float>& tile) const;
  [[nodiscard]] std::vector<float> right_strip(const std::vector<float>& tile) const;
  void blend_above(std::vector<float>& tile) const;
  void blend_left(std::vector<float>& tile) const;
  void copy_to_picture(const std::vector<float>& tile);

  AxisTiles rows_, columns_;
  std::size_t planes_;
  int row_ = 0, column_ = 0;               // of the next tile
  std::vector<std::vector<float>> above_;  // per tile column: [planes, overlap, tile width]
  std::vector<float> left_;                // [planes, tile height, overlap]
  std::vector<float> picture_;
};

// Receives finished frames in order, each [3, height, width]. An error stops the decoding and is passed on.
using FrameSink = std::function<Result<void>(int index, std::span<const float> frame)>;

// Cross-fades consecutive clips and hands frames on as soon as they are final.
class ClipJoiner {
 public:
  // `frame_values` = 3 * height * width; frames from number `output_frames` on are dropped.
  ClipJoiner(const TemporalGeometry& geometry, std::size_t frame_values, int output_frames, FrameSink sink);

  // `frames` are the kept_frames() of the next clip, [frames, frame_values]; the last clip may lack frames that are never output.
  Result<void> add(std::vector<float> frames);
  // Hands on the look-ahead frames of the last clip.
  Result<void> finish();

 private:
  Result<void> emit(std::span<const float> frames);

  std::size_t frame_values_, clip_frames_, overlap_;
  int output_frames_;
  FrameSink sink_;
  int next_ = 0;                   // number of the next frame to hand on
  std::vector<float> look_ahead_;  // of the clip before, [up to overlap_, frame_values_]
};

}  // namespace tritium::video_vae
