#include "model/video_vae/pixels.h"

#include "model/video_vae/config.h"

#include <cmath>

namespace tritium::video_vae {
namespace {

float to_pixel(float value, std::size_t channel) {
  const float pixel = value * kPixelStd[channel] + kPixelMean[channel];
  return pixel > 0.0f ? (pixel < 1.0f ? pixel : 1.0f) : 0.0f;  // in this order so that NaN becomes 0
}

}  // namespace

void to_pixels(std::span<const float> frame, std::span<float> out) {
  const std::size_t pixels = frame.size() / kPixelChannels;
  for (std::size_t c = 0; c < kPixelChannels; ++c)
    for (std::size_t i = 0; i < pixels; ++i) out[c * pixels + i] = to_pixel(frame[c * pixels + i], c);
}

void to_rgb8(std::span<const float> frame, std::span<std::uint8_t> out) {
  const std::size_t pixels = frame.size() / kPixelChannels;
  for (std::size_t c = 0; c < kPixelChannels; ++c)
    for (std::size_t i = 0; i < pixels; ++i)
      out[i * kPixelChannels + c] = static_cast<std::uint8_t>(std::nearbyint(to_pixel(frame[c * pixels + i], c) * 255.0f));
}

}  // namespace tritium::video_vae
