// The size at which a picture or video enters the vision tower. Source: spec/text.md §5.1, in its order of operations.
#pragma once

#include "model/geometry/canvas.h"

namespace tritium {

// From the model's preprocessor files; pictures and videos have limits of their own.
struct ResizeLimits {
  std::int64_t min_pixels = 0, max_pixels = 0;  // of a picture, or of all frames of a video together
  int factor = 32;                              // sides become multiples of this: patch side times merged patches
  int temporal = 2;                             // video frames are counted in multiples of this
};

inline constexpr double kMaxVisionRatio = 200;  // long side : short side; the ratio itself is allowed

// Error (usage, field "image"): a side outside 1..kMaxVisionSide, or a ratio beyond 200.
Result<Size> smart_resize_image(std::int64_t width, std::int64_t height, const ResizeLimits& limits);

// For `frames` sampled frames. Errors: as above with field "video", also for a side below `factor`; failure for no frames.
Result<Size> smart_resize_video(std::int64_t frames, std::int64_t width, std::int64_t height, const ResizeLimits& limits);

inline constexpr std::int64_t kMaxVisionSide = 1 << 20;    // keeps products of sides and frames exact
inline constexpr std::int64_t kMaxVisionFrames = 1 << 12;  // sampled frames

}  // namespace tritium
