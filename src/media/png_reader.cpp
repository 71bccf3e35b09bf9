// PNG with libpng. Its errors come as longjmp: the functions that it may leave that way hold nothing that needs a destructor.
#include "base/try.h"
#include "media/input_file.h"
#include "media/picture_decoders.h"

#include <png.h>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

namespace tritium {
namespace {

struct Reading {
  std::span<const std::uint8_t> file;
  std::size_t position = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::array<char, 160> message{};

  ~Reading() { png_destroy_read_struct(&png, &info, nullptr); }
};

void fail(png_structp png, png_const_charp message) {
  auto& reading = *static_cast<Reading*>(png_get_error_ptr(png));
  std::snprintf(reading.message.data(), reading.message.size(), "%s", message);
  png_longjmp(png, 1);
}

void pass_over(png_structp, png_const_charp) {}

void read_some(png_structp png, png_bytep to, std::size_t count) {
  auto& reading = *static_cast<Reading*>(png_get_io_ptr(png));
  if (reading.file.size() - reading.position < count) png_error(png, "the file ends early");
  std::memcpy(to, reading.file.data() + reading.position, count);
  reading.position += count;
}

bool read_header(Reading& reading) {
  if (setjmp(png_jmpbuf(reading.png)) != 0) return false;
  png_set_read_fn(reading.png, &reading, read_some);
  png_set_user_limits(reading.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours are checked before there are rows
  png_read_info(reading.png, reading.info);
  return true;
}

// Everything to 8-bit RGB. Returns whether a row then has 3 bytes per pixel.
bool choose_output(Reading& reading) {
  if (setjmp(png_jmpbuf(reading.png)) != 0) return false;
  png_set_palette_to_rgb(reading.png);
  png_set_expand_gray_1_2_4_to_8(reading.png);
  png_set_strip_16(reading.png);  // the high byte
  png_set_gray_to_rgb(reading.png);
  png_set_strip_alpha(reading.png);
  (void)png_set_interlace_handling(reading.png);
  png_read_update_info(reading.png, reading.info);
  return png_get_rowbytes(reading.png, reading.info) == std::size_t{3} * png_get_image_width(reading.png, reading.info);
}

bool read_rows(Reading& reading, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reading.png)) != 0) return false;
  png_read_image(reading.png, rows);
  png_read_end(reading.png, reading.info);
  return true;
}

Orientation orientation_of(Reading& reading) {
  png_bytep block = nullptr;
  png_uint_32 bytes = 0;
  if (png_get_eXIf_1(reading.png, reading.info, &bytes, &block) == 0 || block == nullptr) return {};
  return exif_orientation(exif_orientation_tag({block, bytes}));
}

}  // namespace

Result<StoredPicture> decode_png(std::span<const std::uint8_t> file, const std::filesystem::path& name, const PictureLimits& limits) {
  Reading reading;
  reading.file = file;
  reading.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, fail, pass_over);
  if (reading.png != nullptr) reading.info = png_create_info_struct(reading.png);
  if (reading.info == nullptr) return out_of_memory(name);
  const auto damaged = [&] { return unreadable(name, std::string("damaged PNG: ") + reading.message.data()); };

  if (!read_header(reading)) return damaged();
  StoredPicture out;
  const png_uint_32 width = png_get_image_width(reading.png, reading.info), height = png_get_image_height(reading.png, reading.info);
  TRITIUM_TRY_ASSIGN(out.picture, make_picture(width, height, name, limits));
  if (!choose_output(reading)) return damaged();
  std::vector<png_bytep> rows(height);
  for (std::size_t y = 0; y < height; ++y) rows[y] = out.picture.rgb.data() + y * width * 3;
  if (!read_rows(reading, rows.data())) return damaged();
  out.orientation = orientation_of(reading);  // the block may also stand behind the pixels
  return out;
}

}  // namespace tritium
