// Decoded frames of any pixel format to 8-bit RGB. Private to src/media.
#pragma once

#include "media/av_support.h"

#include <cstdint>
#include <span>

namespace tritium {

// With the matrix and range that the frames name; when they name none: BT.709 from 720 lines on, BT.601 below, and limited range.
// Chroma is interpolated bicubically. More than 8 bits are rounded to 8; HDR (PQ, HLG) is not tone-mapped, wide primaries are not
// converted; alpha is dropped.
class RgbConverter {
 public:
  // `path` stands in messages.
  explicit RgbConverter(std::filesystem::path path) : path_(std::move(path)) {}

  // Size of every frame, 0 before the first.
  [[nodiscard]] int width() const { return width_; }
  [[nodiscard]] int height() const { return height_; }

  // Takes note of the first frame and refuses frames that differ from it in size or format.
  Result<void> check(const AVFrame& frame);
  // out: [height, width, 3]. Precondition: check(frame) was fine.
  Result<void> convert(const AVFrame& frame, std::span<std::uint8_t> out);

 private:
  Result<void> start(const AVFrame& frame);
  std::filesystem::path path_;
  int width_ = 0, height_ = 0, format_ = -1;
  std::int64_t frames_ = 0;
  av::Owned<SwsContext> to_rgb_;
};

}  // namespace tritium
