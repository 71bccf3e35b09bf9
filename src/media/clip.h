// A finished clip: RGB pictures and stereo sound, as the two decoders of the model make them and as media files hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tritium {

struct Clip {
  int width = 0;  // pixels
  int height = 0;
  int frames = 0;    // 0 for a clip that is sound only
  int fps_num = 24;  // frames per second = fps_num / fps_den; everything the model makes has 24/1
  int fps_den = 1;
  std::vector<std::uint8_t> rgb;  // [frames, height, width, 3], R G B in 0..255, gamma as in BT.709 / sRGB

  int sample_rate = 32000;         // Hz, both channels
  std::vector<float> left, right;  // [samples] each, full scale is -1..1; both empty when there is no sound

  [[nodiscard]] std::size_t frame_bytes() const { return static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3; }
  // Precondition: 0 <= index < frames and pictures_complete().
  [[nodiscard]] std::span<const std::uint8_t> frame(int index) const {
    return std::span(rgb).subspan(static_cast<std::size_t>(index) * frame_bytes(), frame_bytes());
  }
  // Whether rgb has the size that the numbers above give it.
  [[nodiscard]] bool pictures_complete() const {
    return width >= 0 && height >= 0 && frames >= 0 && rgb.size() == frame_bytes() * static_cast<std::size_t>(frames);
  }
  [[nodiscard]] double video_seconds() const { return static_cast<double>(frames) * fps_den / fps_num; }
  [[nodiscard]] double audio_seconds() const { return static_cast<double>(left.size()) / sample_rate; }
};

}  // namespace tritium
