// Resizing pictures exactly as the reference pipelines do, in integers. Source: spec/text.md §5.2 and §5.4.
#pragma once

#include "base/picture.h"

#include <tritium/result.h>

namespace tritium {

enum class ResampleFilter {
  lanczos,  // Pillow's LANCZOS: keyframes and references
  bicubic,  // torch's antialiased bicubic on 8-bit values: what goes to the vision tower
};

// The whole picture stretched to width x height: first along the rows, then along the columns, 8-bit values in between. An axis whose
// size does not change is left alone, so that the same size gives the same pixels.
// Error (failure): an incomplete picture, or a side outside 1..kMaxResampleSide, or more than kMaxResamplePixels pixels.
Result<Picture> resample(const PictureView& source, int width, int height, ResampleFilter filter);

inline constexpr int kMaxResampleSide = 1 << 20;
inline constexpr std::int64_t kMaxResamplePixels = std::int64_t{1} << 28;

}  // namespace tritium
