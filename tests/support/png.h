// Reading PNG pictures of the test data with libpng alone.
#pragma once

#include "base/picture.h"

#include <filesystem>

namespace tritium::golden {

// As RGB: palettes expanded, grey replicated, alpha dropped without blending. Aborts with a message when the file cannot be read.
Picture read_png_rgb(const std::filesystem::path& path);

}  // namespace tritium::golden
