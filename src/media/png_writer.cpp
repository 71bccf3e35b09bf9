#include "media/png_writer.h"

#include "base/files.h"
#include "base/try.h"

#include <fmt/format.h>
#include <png.h>
#include <system_error>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxSide = 65536;  // far above anything made here; keeps every product below within 64 bits

}  // namespace

Result<void> write_png(const fs::path& path, std::span<const std::uint8_t> rgb, int width, int height) {
  if (width <= 0 || height <= 0 || width > kMaxSide || height > kMaxSide ||
      rgb.size() != static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3)
    return Error{ErrorCode::failure, fmt::format("'{}': {} bytes are not a picture of {}x{}x3", path.string(), rgb.size(), width, height),
                 "", ""};
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, rgb.data(), width * 3, nullptr) == 0)
    return Error{ErrorCode::failure, fmt::format("cannot compress '{}': {}", path.string(), image.message), "", ""};
  return write_file_atomically(path, std::string_view(bytes).substr(0, size));
}

Result<void> write_frames(const fs::path& folder, const Clip& clip, const CancelToken* cancel) {
  if (!clip.pictures_complete())
    return Error{
        ErrorCode::failure,
        fmt::format("the clip holds {} bytes of pictures instead of {}x{}x{}x3", clip.rgb.size(), clip.frames, clip.height, clip.width), "",
        ""};
  std::error_code code;
  fs::create_directories(folder, code);
  if (!code && !fs::is_directory(folder)) code = std::make_error_code(std::errc::not_a_directory);
  if (code) return Error{ErrorCode::failure, fmt::format("cannot create the folder '{}': {}", folder.string(), code.message()), "", ""};
  for (int i = 0; i < clip.frames; ++i) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("writing frames"));
    TRITIUM_TRY(write_png(folder / fmt::format("frame_{:05}.png", i), clip.frame(i), clip.width, clip.height));
  }
  return {};
}

}  // namespace tritium
