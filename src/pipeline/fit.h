// Bringing a picture to the canvas of the clip.
#pragma once

#include "base/picture.h"
#include "model/geometry/canvas.h"

#include <tritium/request.h>
#include <tritium/result.h>

namespace tritium {

// Scaled with LANCZOS (spec/text.md §5.4) and cut or padded with black, always exactly `canvas` in size; a picture of that size is
// returned unchanged. `display` is the size with square pixels if that differs from the picture's own.
Result<Picture> fit_picture(const PictureView& picture, Size display, Size canvas, Fit fit);

}  // namespace tritium
