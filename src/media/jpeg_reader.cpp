// JPEG with libjpeg. Its errors come as longjmp: the functions that it may leave that way hold nothing that needs a destructor.
#include "base/try.h"
#include "media/input_file.h"
#include "media/picture_decoders.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>

#include <jpeglib.h>

#include <jerror.h>  // wants the one above first

namespace tritium {
namespace {

constexpr int kMaxScans = 200;  // a progressive file of a few bytes per scan could keep the decoder busy for hours
constexpr int kExifMarker = JPEG_APP0 + 1;

struct Reading {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf back{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  bool no_memory = false;

  ~Reading() { jpeg_destroy_decompress(&info); }
};

void fail(j_common_ptr info) {
  auto& reading = *static_cast<Reading*>(info->client_data);
  reading.no_memory = info->err->msg_code == JERR_OUT_OF_MEMORY;
  info->err->format_message(info, reading.message.data());
  std::longjmp(reading.back, 1);
}

// Warnings after which pixels are guessed end the decoding; the others are about unusual files whose pixels are all there.
void judge_warning(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      fail(info);
      break;
    default:
      break;
  }
}

void be_silent(j_common_ptr) {}

void count_scans(j_common_ptr info) {
  auto& reading = *static_cast<Reading*>(info->client_data);
  if (reading.info.input_scan_number <= kMaxScans) return;
  std::snprintf(reading.message.data(), reading.message.size(), "more than %d scans", kMaxScans);
  std::longjmp(reading.back, 1);
}

bool read_header(Reading& reading, std::span<const std::uint8_t> file) {
  if (setjmp(reading.back) != 0) return false;
  jpeg_create_decompress(&reading.info);
  jpeg_mem_src(&reading.info, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_save_markers(&reading.info, kExifMarker, 0xffff);
  jpeg_read_header(&reading.info, TRUE);
  return true;
}

bool start(Reading& reading) {
  if (setjmp(reading.back) != 0) return false;
  const bool four = reading.info.jpeg_color_space == JCS_CMYK || reading.info.jpeg_color_space == JCS_YCCK;
  reading.info.out_color_space = four ? JCS_CMYK : JCS_RGB;
  reading.info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&reading.info);
  return true;
}

bool read_row(Reading& reading, JSAMPLE* row) {
  if (setjmp(reading.back) != 0) return false;
  jpeg_read_scanlines(&reading.info, &row, 1);
  return true;
}

bool finish(Reading& reading) {
  if (setjmp(reading.back) != 0) return false;
  jpeg_finish_decompress(&reading.info);
  return true;
}

// a b / 255, rounded, for a, b in 0..255
int product(int a, int b) {
  const int x = a * b + 128;
  return (x + (x >> 8)) >> 8;
}

// Adobe's files, and so practically all with four channels, hold 255 minus the amount of ink.
void from_cmyk(const std::uint8_t* cmyk, std::uint8_t* rgb, std::size_t pixels) {
  for (std::size_t i = 0; i < pixels; ++i) {
    const int light = cmyk[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const int ink = 255 - cmyk[4 * i + c];
      rgb[3 * i + c] = static_cast<std::uint8_t>(light - product(ink, light));
    }
  }
}

Orientation orientation_of(const jpeg_decompress_struct& info) {
  constexpr std::array<JOCTET, 6> kExif = {'E', 'x', 'i', 'f', 0, 0};
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const std::span<const std::uint8_t> block(marker->data, marker->data_length);
    if (marker->marker == kExifMarker && block.size() >= kExif.size() && std::equal(kExif.begin(), kExif.end(), block.begin()))
      return exif_orientation(exif_orientation_tag(block));
  }
  return {};
}

}  // namespace

Result<StoredPicture> decode_jpeg(std::span<const std::uint8_t> file, const std::filesystem::path& name, const PictureLimits& limits) {
  Reading reading;
  reading.info.err = jpeg_std_error(&reading.errors);
  reading.info.client_data = &reading;
  reading.errors.error_exit = fail;
  reading.errors.emit_message = judge_warning;
  reading.errors.output_message = be_silent;
  reading.progress.progress_monitor = count_scans;
  const auto damaged = [&] {
    return reading.no_memory ? out_of_memory(name) : unreadable(name, std::string("damaged or unusual JPEG: ") + reading.message.data());
  };

  if (!read_header(reading, file)) return damaged();
  reading.info.progress = &reading.progress;
  StoredPicture out;
  TRITIUM_TRY_ASSIGN(out.picture, make_picture(reading.info.image_width, reading.info.image_height, name, limits));
  out.orientation = orientation_of(reading.info);
  if (!start(reading)) return damaged();
  const std::size_t width = reading.info.output_width, stride = width * 3;
  const bool cmyk = reading.info.out_color_space == JCS_CMYK;
  std::vector<std::uint8_t> four(cmyk ? width * 4 : 0);
  for (std::size_t y = 0; y < reading.info.output_height; ++y) {
    std::uint8_t* row = out.picture.rgb.data() + y * stride;
    if (!read_row(reading, cmyk ? four.data() : row)) return damaged();
    if (cmyk) from_cmyk(four.data(), row, width);
  }
  if (!finish(reading)) return damaged();
  return out;
}

}  // namespace tritium
