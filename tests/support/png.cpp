#include "support/png.h"

#include <png.h>
#include <cstdio>
#include <cstdlib>

namespace tritium::golden {

Picture read_png_rgb(const std::filesystem::path& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto require = [&](bool ok) {
    if (ok) return;
    std::fprintf(stderr, "golden data: cannot read '%s': %s\n", path.c_str(), image.message);
    std::exit(1);
  };
  require(png_image_begin_read_from_file(&image, path.c_str()) != 0);
  image.format = PNG_FORMAT_RGBA;
  std::vector<std::uint8_t> rgba(PNG_IMAGE_SIZE(image));
  require(png_image_finish_read(&image, nullptr, rgba.data(), 0, nullptr) != 0);
  Picture out{static_cast<int>(image.width), static_cast<int>(image.height), {}};
  for (std::size_t i = 0; i < rgba.size(); i += 4) out.rgb.insert(out.rgb.end(), &rgba[i], &rgba[i] + 3);
  return out;
}

}  // namespace tritium::golden
