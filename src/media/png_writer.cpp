#include "media/png_writer.h"

#include "base/files.h"

#include <fmt/format.h>
#include <png.h>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxSide = 65536;  // far above anything made here; keeps every product below within 64 bits

}  // namespace

Result<std::string> encode_png(std::span<const std::uint8_t> rgb, int width, int height) {
  if (width <= 0 || height <= 0 || width > kMaxSide || height > kMaxSide ||
      rgb.size() != static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3)
    return Error{ErrorCode::failure, fmt::format("{} bytes are not a picture of {}x{}x3", rgb.size(), width, height), "", ""};
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, rgb.data(), width * 3, nullptr) == 0)
    return Error{ErrorCode::failure, fmt::format("cannot compress a picture: {}", image.message), "", ""};
  bytes.resize(size);
  return bytes;
}

Result<void> write_png(const fs::path& path, std::span<const std::uint8_t> rgb, int width, int height) {
  auto bytes = encode_png(rgb, width, height);
  if (!bytes.ok()) return Error{bytes.error().code, fmt::format("'{}': {}", path.string(), bytes.error().message), "", ""};
  return write_file_atomically(path, *bytes);
}

}  // namespace tritium
