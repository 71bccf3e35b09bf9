// JPEG with libjpeg. Its errors come as longjmp: the function that it may leave that way holds nothing that needs a destructor.
#include "media/jpeg_writer.h"

#include "base/try.h"
#include "media/resample.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

namespace tritium {
namespace {

struct Writing {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf back{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  ~Writing() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
};

void fail(j_common_ptr info) {
  auto& writing = *static_cast<Writing*>(info->client_data);
  info->err->format_message(info, writing.message.data());
  std::longjmp(writing.back, 1);
}

void be_silent(j_common_ptr) {}

bool write(Writing& writing, const PictureView& picture, int quality) {
  if (setjmp(writing.back) != 0) return false;
  jpeg_create_compress(&writing.info);
  jpeg_mem_dest(&writing.info, &writing.bytes, &writing.size);
  writing.info.image_width = static_cast<JDIMENSION>(picture.width);
  writing.info.image_height = static_cast<JDIMENSION>(picture.height);
  writing.info.input_components = 3;
  writing.info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&writing.info);
  jpeg_set_quality(&writing.info, quality, TRUE);
  writing.info.dct_method = JDCT_ISLOW;
  jpeg_start_compress(&writing.info, TRUE);
  while (writing.info.next_scanline < writing.info.image_height) {
    const std::size_t at = static_cast<std::size_t>(writing.info.next_scanline) * static_cast<std::size_t>(picture.width) * 3;
    auto* row = const_cast<JSAMPROW>(picture.rgb.data() + at);  // libjpeg does not write to it
    jpeg_write_scanlines(&writing.info, &row, 1);
  }
  jpeg_finish_compress(&writing.info);
  return true;
}

}  // namespace

Result<std::string> encode_jpeg(const PictureView& picture, int quality) {
  constexpr int kMostSide = 65500;
  if (!picture.complete() || picture.width > kMostSide || picture.height > kMostSide)
    return Error{
        ErrorCode::failure,
        fmt::format("a picture of {}x{} with {} bytes cannot be written as JPEG", picture.width, picture.height, picture.rgb.size()), "",
        ""};
  Writing writing;
  writing.info.err = jpeg_std_error(&writing.errors);
  writing.errors.error_exit = fail;
  writing.errors.output_message = be_silent;
  writing.info.client_data = &writing;
  if (!write(writing, picture, quality))
    return Error{ErrorCode::failure, fmt::format("cannot write a JPEG: {}", writing.message.data()), "", ""};
  return std::string(reinterpret_cast<const char*>(writing.bytes), writing.size);
}

Result<std::string> encode_thumbnail(const PictureView& picture, int most_width, int quality) {
  if (picture.width <= most_width) return encode_jpeg(picture, quality);
  const int height = std::max(1, static_cast<int>((std::int64_t{picture.height} * most_width + picture.width / 2) / picture.width));
  TRITIUM_TRY_ASSIGN(const Picture small, resample(picture, most_width, height, ResampleFilter::lanczos));
  return encode_jpeg(small, quality);
}

}  // namespace tritium
