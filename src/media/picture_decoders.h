// One function per picture format. Private to src/media.
#pragma once

#include "media/orientation.h"
#include "media/picture.h"

namespace tritium {

// A picture as it is stored, and how to turn it upright.
struct StoredPicture {
  Picture picture;
  Orientation orientation;
};

// `name` stands in the messages of all these.

// A picture of width x height, all black, if the limits allow it.
Result<Picture> make_picture(std::uint32_t width, std::uint32_t height, const std::filesystem::path& name, const PictureLimits& limits);

Result<StoredPicture> decode_png(std::span<const std::uint8_t> file, const std::filesystem::path& name, const PictureLimits& limits);
Result<StoredPicture> decode_jpeg(std::span<const std::uint8_t> file, const std::filesystem::path& name, const PictureLimits& limits);
Result<StoredPicture> decode_webp(std::span<const std::uint8_t> file, const std::filesystem::path& name, const PictureLimits& limits);
Result<StoredPicture> decode_gif(std::span<const std::uint8_t> file, const std::filesystem::path& name, const PictureLimits& limits);

}  // namespace tritium
