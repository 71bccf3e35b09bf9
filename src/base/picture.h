// Pictures in memory: 8-bit RGB with gamma, as files and screens have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tritium {

struct Picture {
  int width = 0, height = 0;      // pixels
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

// Pixels that somebody else owns.
struct PictureView {
  int width = 0, height = 0;
  std::span<const std::uint8_t> rgb;  // [height, width, 3]

  PictureView() = default;
  PictureView(int w, int h, std::span<const std::uint8_t> pixels) : width(w), height(h), rgb(pixels) {}
  PictureView(const Picture& picture) : width(picture.width), height(picture.height), rgb(picture.rgb) {}

  // Whether there is at least one pixel and as many values as the sides ask for.
  [[nodiscard]] bool complete() const {
    return width > 0 && height > 0 && rgb.size() == static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
  }
};

}  // namespace tritium
