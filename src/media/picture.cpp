#include "media/picture.h"

#include "media/input_file.h"
#include "media/picture_decoders.h"

#include <fmt/format.h>
#include <algorithm>
#include <new>
#include <string_view>

namespace tritium {
namespace fs = std::filesystem;
namespace {

enum class Format { png, jpeg, webp, gif, other };

Format recognize(std::span<const std::uint8_t> file) {
  const std::string_view head(reinterpret_cast<const char*>(file.data()), std::min<std::size_t>(file.size(), 12));
  if (head.starts_with("\x89PNG\r\n\x1a\n")) return Format::png;
  if (head.starts_with("\xff\xd8\xff")) return Format::jpeg;
  if (head.starts_with("GIF87a") || head.starts_with("GIF89a")) return Format::gif;
  if (head.size() == 12 && head.starts_with("RIFF") && head.ends_with("WEBP")) return Format::webp;
  return Format::other;
}

Result<StoredPicture> decode_stored(std::span<const std::uint8_t> file, const fs::path& name, const PictureLimits& limits) {
  switch (recognize(file)) {
    case Format::png:
      return decode_png(file, name, limits);
    case Format::jpeg:
      return decode_jpeg(file, name, limits);
    case Format::webp:
      return decode_webp(file, name, limits);
    case Format::gif:
      return decode_gif(file, name, limits);
    case Format::other:
      break;
  }
  Error error = unreadable(name, "it is not a picture of a known kind");
  error.hint = "use PNG, JPEG, WebP or GIF";
  return error;
}

}  // namespace

Result<Picture> make_picture(std::uint32_t width, std::uint32_t height, const fs::path& name, const PictureLimits& limits) {
  const auto pixels = static_cast<std::uint64_t>(width) * height;
  if (pixels == 0) return unreadable(name, fmt::format("its header says {}x{} pixels", width, height));
  if (width > limits.max_side || height > limits.max_side || pixels > limits.max_pixels) {
    Error error = unreadable(name, fmt::format("it has {}x{} pixels; at most {} a side and {} in all are taken", width, height,
                                               limits.max_side, limits.max_pixels));
    error.hint = "make it smaller";
    return error;
  }
  Picture out;
  out.width = static_cast<int>(width);
  out.height = static_cast<int>(height);
  out.rgb.resize(pixels * 3);
  return out;
}

Result<Picture> decode_picture(std::span<const std::uint8_t> file, const fs::path& name, const PictureLimits& limits) {
  try {
    auto stored = decode_stored(file, name, limits);
    if (!stored.ok()) return as_request_error(stored.error());
    turn(stored->picture, stored->orientation);
    return std::move(stored->picture);
  } catch (const std::bad_alloc&) { return out_of_memory(name); }
}

Result<Picture> load_picture(const fs::path& path, const PictureLimits& limits) {
  try {
    const auto file = InputFile::open(path);
    if (!file.ok()) return as_request_error(file.error());
    const auto bytes = file->read_all(limits.max_file_bytes);
    if (!bytes.ok()) return as_request_error(bytes.error());
    return decode_picture({reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size()}, path, limits);
  } catch (const std::bad_alloc&) { return out_of_memory(path); }
}

}  // namespace tritium
