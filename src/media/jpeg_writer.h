// JPEG pictures in memory: baseline, 4:2:0, no metadata; the same pixels give the same bytes.
#pragma once

#include "base/picture.h"

#include <tritium/result.h>

#include <string>

namespace tritium {

// Error (failure): an incomplete picture, a side above 65500, no memory.
Result<std::string> encode_jpeg(const PictureView& picture, int quality = 85);

// Scaled down to at most this width, sides at least 1; smaller ones stay as they are. Error as above.
Result<std::string> encode_thumbnail(const PictureView& picture, int most_width = 512, int quality = 85);

}  // namespace tritium
