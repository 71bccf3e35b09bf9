// JPEG, WebP and GIF pictures, limits, and files that are broken or not what they claim to be.
#include "media/picture.h"

#include "base/files.h"
#include "base/system.h"
#include "media/png_writer.h"
#include "unit/media_inputs.h"
#include "unit/png_maker.h"

#include <cstdio>
#include <random>

#include <jpeglib.h>

namespace tritium {
namespace {

using test::TempFolder;

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Soft shades and an edge.
Picture shades(int width, int height) {
  return test::paint(width, height, [&](int x, int y) {
    return std::array<int, 3>{40 + 150 * x / width, 60 + 120 * y / height, x > width / 2 ? 200 : 50};
  });
}

double mean_difference(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  if (a.size() != b.size()) return 1e9;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(static_cast<double>(a[i]) - b[i]);
  return sum / static_cast<double>(std::max<std::size_t>(a.size(), 1));
}

std::string jpeg_file(int width, int height, int channels, J_COLOR_SPACE from, J_COLOR_SPACE to, bool progressive,
                      std::span<const std::uint8_t> samples) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = channels;
  info.in_color_space = from;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, to);
  jpeg_set_quality(&info, 97, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row =
        const_cast<JSAMPLE*>(samples.data() + static_cast<std::size_t>(info.next_scanline) * static_cast<std::size_t>(width * channels));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string out(reinterpret_cast<char*>(data), size);
  std::free(data);
  return out;
}

TEST(PictureFiles, JpegOfEveryColourSpace) {
  const int width = 75, height = 50;
  const Picture picture = shades(width, height);
  std::vector<std::uint8_t> grey, grey_rgb, inverted_cmyk;
  for (std::size_t i = 0; i < picture.rgb.size(); i += 3) {
    grey.push_back(picture.rgb[i]);
    grey_rgb.insert(grey_rgb.end(), 3, picture.rgb[i]);
    // Without black ink, as Adobe stores it: 255 - C = R and so on, 255 - K = 255.
    inverted_cmyk.insert(inverted_cmyk.end(), {picture.rgb[i], picture.rgb[i + 1], picture.rgb[i + 2], 255});
  }
  for (const bool progressive : {false, true}) {
    const auto check = [&](const std::string& file, const std::vector<std::uint8_t>& expected, double limit, const char* what) {
      const auto out = decode_picture(bytes_of(file), "a.jpg");
      ASSERT_TRUE(out.ok()) << out.error().text();
      EXPECT_EQ(out->width, width);
      EXPECT_EQ(out->height, height);
      EXPECT_LT(mean_difference(out->rgb, expected), limit) << what;
    };
    check(jpeg_file(width, height, 3, JCS_RGB, JCS_YCbCr, progressive, picture.rgb), picture.rgb, 1.5, "YCbCr");
    check(jpeg_file(width, height, 3, JCS_RGB, JCS_RGB, progressive, picture.rgb), picture.rgb, 1.0, "RGB");
    check(jpeg_file(width, height, 1, JCS_GRAYSCALE, JCS_GRAYSCALE, progressive, grey), grey_rgb, 1.0, "grey");
    check(jpeg_file(width, height, 4, JCS_CMYK, JCS_CMYK, progressive, inverted_cmyk), picture.rgb, 1.0, "CMYK");
    check(jpeg_file(width, height, 4, JCS_CMYK, JCS_YCCK, progressive, inverted_cmyk), picture.rgb, 1.5, "YCCK");
  }
  // Half black ink: everything half as bright.
  std::vector<std::uint8_t> half = inverted_cmyk;
  for (std::size_t i = 3; i < half.size(); i += 4) half[i] = 128;
  const auto out = decode_picture(bytes_of(jpeg_file(width, height, 4, JCS_CMYK, JCS_CMYK, false, half)), "a.jpg");
  ASSERT_TRUE(out.ok()) << out.error().text();
  for (std::size_t i = 0; i < out->rgb.size(); ++i) ASSERT_NEAR(out->rgb[i], picture.rgb[i] * 128 / 255, 8) << i;
}

TEST(PictureFiles, WebpLosslessIsExactAndLossyIsClose) {
  TRITIUM_NEEDS_FFMPEG();
  TRITIUM_NEEDS_ENCODER("libwebp");
  const TempFolder folder;
  const Picture picture = shades(64, 48);
  ASSERT_TRUE(write_png(folder / "a.png", picture.rgb, 64, 48).ok());
  test::ffmpeg(folder, "-i a.png -c:v libwebp -lossless 1 exact.webp");
  test::ffmpeg(folder, "-i a.png -c:v libwebp -quality 95 lossy.webp");
  test::ffmpeg(folder, "-i a.png -vf format=bgra,colorchannelmixer=aa=0.3 -c:v libwebp -lossless 1 alpha.webp");
  for (const char* name : {"exact.webp", "alpha.webp"}) {
    const auto exact = load_picture(folder / name);
    ASSERT_TRUE(exact.ok()) << exact.error().text();
    EXPECT_EQ(exact->rgb, picture.rgb) << name;
  }
  const auto lossy = load_picture(folder / "lossy.webp");
  ASSERT_TRUE(lossy.ok()) << lossy.error().text();
  EXPECT_LT(mean_difference(lossy->rgb, picture.rgb), 4);
}

TEST(PictureFiles, AnimationsGiveTheirFirstPicture) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  const std::string input = test::numbered_frames(folder, 5, "10");
  test::ffmpeg(folder, input + " a.gif");
  test::ffmpeg(folder, input + " -f apng a.png");
  std::vector<std::string> names = {"a.gif", "a.png"};
  if (test::has_encoder("libwebp_anim")) {
    test::ffmpeg(folder, input + " -c:v libwebp_anim -lossless 1 a.webp");
    names.emplace_back("a.webp");
  }
  for (const std::string& name : names) {
    const auto picture = load_picture(folder / name);
    ASSERT_TRUE(picture.ok()) << picture.error().text();
    EXPECT_EQ(picture->width, 96) << name;
    EXPECT_EQ(test::number_in(*picture), 0) << name;
  }
}

TEST(PictureFiles, HugePicturesTakeBoundedMemory) {
  const TempFolder folder;
  {  // 12000 x 9000 of one colour, written row by row
    test::PngSource row{12000, 1, 8, 2, 3, {}, "", "", false};
    for (int x = 0; x < 12000; ++x) row.samples.insert(row.samples.end(), {7, 80, 200});
    const std::string one = test::png_pass(row, 0, 0, 1, 1);
    std::string all;
    all.reserve(one.size() * 9000);
    for (int y = 0; y < 9000; ++y) all += one;
    folder.write("huge.png",
                 test::png_header(12000, 9000, 8, 2) + test::png_chunk("IDAT", test::deflated(all)) + test::png_chunk("IEND", ""));
  }
  const auto before = peak_resident_bytes();
  const auto picture = load_picture(folder / "huge.png");
  ASSERT_TRUE(picture.ok()) << picture.error().text();
  EXPECT_LT(peak_resident_bytes() - before, 400u << 20);  // its pixels take 309 MiB
  EXPECT_EQ(picture->width, 12000);
  EXPECT_EQ(picture->height, 9000);
  EXPECT_EQ(*test::pixel(*picture, 11999, 8999), 7);
  EXPECT_EQ(load_picture(folder / "huge.png", {.max_pixels = 100'000'000}).error().code, ErrorCode::usage);
  EXPECT_EQ(load_picture(folder / "huge.png", {.max_file_bytes = 1000}).error().code, ErrorCode::usage);
}

// A header of a few bytes must not make the reader take gigabytes.
TEST(PictureFiles, DecompressionBombsAreRefusedFromTheirHeader) {
  const TempFolder folder;
  const auto before = peak_resident_bytes();
  std::map<std::string, std::string> files;
  for (const auto& [width, height] : {std::pair{100000u, 100000u}, {65536u, 65536u}, {1u, 2000000u}, {0x7fffffffu, 0x7fffffffu}, {0u, 1u}})
    files[fmt::format("{}x{}.png", width, height)] = test::png_header(width, height, 8, 2) +
                                                     test::png_chunk("IDAT", test::deflated(std::string(100000, '\0'))) +
                                                     test::png_chunk("IEND", "");
  const std::vector<std::uint8_t> small(3 * 16 * 16);
  std::string jpeg = jpeg_file(16, 16, 3, JCS_RGB, JCS_YCbCr, true, small);
  const std::size_t frame = jpeg.find("\xff\xc2");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\x00\xff\x00", 4);
  files["65280x65280.jpg"] = jpeg;
  files["65535x65535.gif"] = "GIF89a\xff\xff\xff\xff" + std::string(3, '\0') + ";";
  files["16384x16384.webp"] =
      std::string("RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\x3f\0\xff\x3f\0", 30) + std::string("VP8L\x04\0\0\0\x2f\xff\xff\xff", 12);
  for (const auto& [name, content] : files) {
    folder.write(name, content);
    const auto picture = load_picture(folder / name);
    ASSERT_FALSE(picture.ok()) << name;
    test::expect_clear(picture.error(), folder / name);
  }
  EXPECT_LT(peak_resident_bytes() - before, 64u << 20);
  EXPECT_NE(load_picture(folder / "100000x100000.png").error().message.find("100000x100000"), std::string::npos);
}

TEST(PictureFiles, WhatIsNoPictureIsRefused) {
  const TempFolder folder;
  std::map<std::string, std::string> files = {{"empty.png", ""},
                                              {"text.png", "this is not a picture\n"},
                                              {"svg.png", "<svg xmlns='http://www.w3.org/2000/svg'/>"},
                                              {"list.png", "#EXTM3U\nhttp://127.0.0.1:9/a.png\n"}};
  for (const auto& [name, content] : files) {
    folder.write(name, content);
    const auto picture = load_picture(folder / name);
    ASSERT_FALSE(picture.ok()) << name;
    test::expect_clear(picture.error(), folder / name);
  }
  ASSERT_EQ(::mkfifo((folder / "pipe.png").c_str(), 0600), 0);
  for (const auto& path : {folder / "missing.png", folder.path(), folder / "pipe.png", std::filesystem::path("/dev/zero"),
                           std::filesystem::path("http://127.0.0.1:9/a.png")}) {
    const auto picture = load_picture(path);
    ASSERT_FALSE(picture.ok()) << path;
    test::expect_clear(picture.error(), path);
  }
}

// Wherever a file ends, it is refused, or all pixels were there already.
TEST(PictureFiles, B1_TruncatedFilesAreRefused) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  const Picture picture = shades(80, 60);
  ASSERT_TRUE(write_png(folder / "a.png", picture.rgb, 80, 60).ok());
  test::ffmpeg(folder, "-i a.png -c:v libwebp -lossless 1 a.webp");
  test::ffmpeg(folder, "-i a.png -c:v libwebp b.webp");
  test::ffmpeg(folder, "-i a.png a.gif");
  folder.write("a.jpg", jpeg_file(80, 60, 3, JCS_RGB, JCS_YCbCr, false, picture.rgb));
  folder.write("b.jpg", jpeg_file(80, 60, 3, JCS_RGB, JCS_YCbCr, true, picture.rgb));
  for (const char* name : {"a.png", "a.webp", "b.webp", "a.gif", "a.jpg", "b.jpg"}) {
    const std::string whole = *read_file(folder / name);
    const auto complete = decode_picture(bytes_of(whole), name);
    ASSERT_TRUE(complete.ok()) << complete.error().text();
    int refused = 0, rounds = 0;
    for (std::size_t keep = 1; keep < whole.size(); keep += std::max<std::size_t>(1, whole.size() / 97), ++rounds) {
      const auto part = decode_picture(bytes_of(whole.substr(0, keep)), name);
      if (part.ok()) {
        EXPECT_EQ(part->rgb, complete->rgb) << name << " " << keep << " of " << whole.size();
      } else {
        test::expect_clear(part.error(), name);
        ++refused;
      }
    }
    EXPECT_GE(refused, rounds - 2) << name;
  }
}

TEST(PictureFiles, DamagedFilesNeverDoWorseThanAnError) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  const Picture picture = shades(40, 30);
  ASSERT_TRUE(write_png(folder / "a.png", picture.rgb, 40, 30).ok());
  test::ffmpeg(folder, "-i a.png -c:v libwebp -lossless 1 a.webp");
  test::ffmpeg(folder, "-i a.png -c:v libwebp b.webp");
  test::ffmpeg(folder, "-i a.png a.gif");
  folder.write("a.jpg", jpeg_file(40, 30, 3, JCS_RGB, JCS_YCbCr, false, picture.rgb));
  folder.write("b.jpg", jpeg_file(40, 30, 3, JCS_RGB, JCS_YCbCr, true, picture.rgb));
  std::mt19937 random(4);
  for (const char* name : {"a.png", "a.webp", "b.webp", "a.gif", "a.jpg", "b.jpg"}) {
    const std::string whole = *read_file(folder / name);
    for (int round = 0; round < 300; ++round) {
      std::string bytes = whole;
      for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
      const auto out = decode_picture(bytes_of(bytes), name, {.max_pixels = 1'000'000});
      if (out.ok()) {
        EXPECT_TRUE(PictureView(*out).complete());
      } else {
        EXPECT_FALSE(out.error().message.empty());
      }
    }
  }
}

}  // namespace
}  // namespace tritium
