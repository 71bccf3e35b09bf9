// From the decoder's normalized space to pixels. Source: spec/vae.md §1.2.
#pragma once

#include <cstdint>
#include <span>

namespace tritium::video_vae {

// A frame is planar RGB: [3, pixels], pixels = height * width in reading order.

// Pixel values in [0,1], planar as the input. Precondition: out.size() == frame.size(), a multiple of 3.
void to_pixels(std::span<const float> frame, std::span<float> out);

// Pixels [0,1] times 255, rounded half to even, as interleaved RGB [pixels, 3]. Not-a-number gives 0. Preconditions as above.
void to_rgb8(std::span<const float> frame, std::span<std::uint8_t> out);

}  // namespace tritium::video_vae
