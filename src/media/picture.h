// Still pictures from files.
#pragma once

#include "base/picture.h"

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <span>

namespace tritium {

// Read from the header, before anything is decoded. While decoding, a picture takes the file and about 6 bytes per pixel (when it has to
// be turned, 3 otherwise), a progressive JPEG up to 11.
struct PictureLimits {
  std::uint64_t max_pixels = 200'000'000;
  std::uint32_t max_side = 65'536;
  std::uint64_t max_file_bytes = 256u << 20;
};

// PNG, JPEG, WebP or GIF, told apart by their content, as 8-bit RGB (spec/text.md §5.4):
// * Turned upright when EXIF says so (in JPEG, PNG and WebP).
// * Alpha is dropped, not blended; palettes are expanded; grey goes to all three channels; 16-bit samples keep their high byte; colour
//   profiles and gamma marks are ignored.
// * JPEG is decoded as libjpeg does by default (exact integer DCT, smooth chroma); CMYK and YCCK as Adobe stores them (inverted), without
//   a profile: R = K (255 - C) / 255 in inverted terms.
// * Of an animation the first picture; in an animated PNG the one that programs without animation show.
// Errors: usage when the file is missing, not such a picture, damaged or cut off, or above a limit; does_not_fit without memory.
// They name file and reason.
Result<Picture> load_picture(const std::filesystem::path& path, const PictureLimits& limits = {});

// The same from memory; `name` stands in messages.
Result<Picture> decode_picture(std::span<const std::uint8_t> file, const std::filesystem::path& name, const PictureLimits& limits = {});

}  // namespace tritium
