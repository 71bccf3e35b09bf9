// Still pictures: every kind of PNG exactly, JPEG, WebP, GIF, orientation, limits and broken files.
#include "media/picture.h"

#include "base/files.h"
#include "base/system.h"
#include "media/orientation.h"
#include "media/png_writer.h"
#include "unit/media_inputs.h"
#include "unit/png_maker.h"

#include <random>

namespace tritium {
namespace {

using test::PngSource;
using test::TempFolder;

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

void expect_pixels(const Result<Picture>& picture, int width, int height, const std::vector<std::uint8_t>& rgb, const std::string& what) {
  ASSERT_TRUE(picture.ok()) << what << ": " << picture.error().text();
  EXPECT_EQ(picture->width, width) << what;
  EXPECT_EQ(picture->height, height) << what;
  EXPECT_EQ(picture->rgb, rgb) << what;
}

// Every colour type, depth and both orders of pixels; expected values from the definition of the format.
TEST(Picture, EveryKindOfPngIsExact) {
  std::mt19937 random(1);
  struct Kind {
    int colour, channels;
    std::vector<int> depths;
  };
  for (const Kind& kind :
       {Kind{0, 1, {1, 2, 4, 8, 16}}, Kind{2, 3, {8, 16}}, Kind{3, 1, {1, 2, 4, 8}}, Kind{4, 2, {8, 16}}, Kind{6, 4, {8, 16}}})
    for (const int depth : kind.depths)
      for (const bool interlaced : {false, true})
        for (const auto& [width, height] : {std::pair{1, 1}, {13, 9}, {37, 30}, {3, 1}, {1, 11}}) {
          PngSource source{width, height, depth, kind.colour, kind.channels, {}, "", "", interlaced};
          std::string palette, alpha;
          for (int i = 0; i < 3 << depth && kind.colour == 3; ++i) palette += static_cast<char>(random());
          for (int i = 0; i < 1 << depth && kind.colour == 3; ++i) alpha += static_cast<char>(random());
          if (kind.colour == 3) source.before = test::png_chunk("PLTE", palette) + test::png_chunk("tRNS", alpha);
          if (kind.colour == 2) source.before = test::png_chunk("tRNS", std::string("\0\1\0\2\0\3", 6));
          std::vector<std::uint8_t> expected;
          for (int i = 0; i < width * height; ++i) {
            std::array<int, 4> value{};
            for (int c = 0; c < kind.channels; ++c) {
              source.samples.push_back(static_cast<std::uint16_t>(random() & ((1u << depth) - 1)));
              const int sample = source.samples.back();
              value[static_cast<std::size_t>(c)] = depth == 16        ? sample >> 8
                                                   : kind.colour == 3 ? sample
                                                                      : sample * 255 / ((1 << depth) - 1);
            }
            for (std::size_t c = 0; c < 3; ++c) {
              const int grey = value[kind.channels >= 3 ? c : 0];
              expected.push_back(
                  static_cast<std::uint8_t>(kind.colour == 3 ? palette[static_cast<std::size_t>(grey) * 3 + c] : static_cast<char>(grey)));
            }
          }
          const std::string file = test::png_file(source);
          expect_pixels(decode_picture(bytes_of(file), "a.png"), width, height, expected,
                        fmt::format("colour {} depth {} {}x{} interlaced {}", kind.colour, depth, width, height, interlaced));
        }
}

// Marks about colour change nothing: the pixels are taken as they are.
TEST(Picture, GammaAndProfilesAreIgnored) {
  PngSource source{2, 1, 8, 2, 3, {10, 20, 30, 200, 100, 50}, "", "", false};
  const std::vector<std::uint8_t> expected = {10, 20, 30, 200, 100, 50};
  for (const std::string& mark : {test::png_chunk("gAMA", test::big_endian(100000)), test::png_chunk("sRGB", std::string(1, '\0')),
                                  test::png_chunk("bKGD", std::string(6, '\x40')), test::png_chunk("tEXt", std::string("a\0b", 3)),
                                  test::png_chunk("iCCP", std::string("broken profile"))}) {
    source.before = mark;
    expect_pixels(decode_picture(bytes_of(test::png_file(source)), "a.png"), 2, 1, expected, mark.substr(4, 4));
  }
}

TEST(Picture, OwnPngComesBack) {
  const TempFolder folder;
  const Picture picture = test::corner_picture(70, 40);
  ASSERT_TRUE(write_png(folder / "a.png", picture.rgb, 70, 40).ok());
  expect_pixels(load_picture(folder / "a.png"), 70, 40, picture.rgb, "a.png");
}

TEST(Picture, OrientationTables) {
  for (unsigned value = 0; value <= 9; ++value) {
    Picture picture = test::corner_picture(12, 8);
    turn(picture, exif_orientation(value));
    EXPECT_EQ(test::corners(picture), test::turned_corners()[value <= 8 ? value : 1]) << value;
    EXPECT_EQ(picture.width, value >= 5 && value <= 8 ? 8 : 12);
  }
  // Odd sides, every pixel its own: turned to the right and back to the left.
  const Picture original = test::paint(67, 129, [](int x, int y) { return std::array<int, 3>{x, y, (x * y) & 255}; });
  Picture turned = original;
  turn(turned, exif_orientation(6));
  EXPECT_EQ(*test::pixel(turned, 128, 0), 0);
  EXPECT_EQ(test::pixel(turned, 128 - 5, 66)[0], 66);
  EXPECT_EQ(test::pixel(turned, 128 - 5, 66)[1], 5);
  turn(turned, exif_orientation(8));
  EXPECT_EQ(turned.rgb, original.rgb);

  constexpr std::int32_t kOne = 1 << 16;
  EXPECT_EQ(matrix_orientation({kOne, 0, 0, kOne}), exif_orientation(1));
  EXPECT_EQ(matrix_orientation({0, kOne, -kOne, 0}), exif_orientation(6));
  EXPECT_EQ(matrix_orientation({-kOne, 0, 0, -kOne}), exif_orientation(3));
  EXPECT_EQ(matrix_orientation({0, -kOne, kOne, 0}), exif_orientation(8));
  EXPECT_EQ(matrix_orientation({-kOne, 0, 0, kOne}), exif_orientation(2));
  EXPECT_EQ(matrix_orientation({2 * kOne, 3, -2, 2 * kOne}), exif_orientation(1));
  EXPECT_EQ(matrix_orientation({0, 0, 0, 0}), exif_orientation(1));
  EXPECT_EQ(matrix_orientation({46341, 46341, -46341, 46341}), std::nullopt);
  EXPECT_EQ(matrix_orientation({INT32_MIN, 0, 0, INT32_MIN}), exif_orientation(3));
}

TEST(Picture, ExifBlocksAreReadStrictly) {
  for (const bool big : {true, false})
    for (int value = 1; value <= 8; ++value) {
      const std::string block = test::exif_block(value, big);
      EXPECT_EQ(exif_orientation_tag(bytes_of(block)), static_cast<unsigned>(value));
      EXPECT_EQ(exif_orientation_tag(bytes_of(std::string("Exif\0\0", 6) + block)), static_cast<unsigned>(value));
    }
  for (const int value : {0, 9, 65535}) EXPECT_EQ(exif_orientation_tag(bytes_of(test::exif_block(value))), 1u);
  const std::string good = test::exif_block(6);
  for (std::size_t keep = 0; keep < 20; ++keep) EXPECT_EQ(exif_orientation_tag(bytes_of(good.substr(0, keep))), 1u) << keep;
  std::string far = good;
  far.replace(4, 4, "\xff\xff\xff\xf0");
  EXPECT_EQ(exif_orientation_tag(bytes_of(far)), 1u);
  std::mt19937 random(2);
  for (int round = 0; round < 20000; ++round) {  // must not read outside, whatever it finds
    std::string noise = good;
    for (int i = 0; i < 4; ++i) noise[random() % noise.size()] = static_cast<char>(random());
    const std::vector<std::uint8_t> exact(noise.begin(), noise.begin() + static_cast<std::ptrdiff_t>(random() % (noise.size() + 1)));
    EXPECT_LE(exif_orientation_tag(exact), 8u);
  }
}

TEST(Picture, ExifOrientationIsApplied) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  const Picture picture = test::corner_picture(48, 32);
  ASSERT_TRUE(write_png(folder / "a.png", picture.rgb, 48, 32).ok());
  test::ffmpeg(folder, "-i a.png -q:v 2 a.jpg");
  test::ffmpeg(folder, "-i a.png -c:v libwebp -lossless 1 a.webp");
  const std::string png = *read_file(folder / "a.png"), jpeg = *read_file(folder / "a.jpg"), webp = *read_file(folder / "a.webp");
  const auto little = [](std::uint32_t value, int count) {
    const std::string out = test::big_endian(value, count);
    return std::string(out.rbegin(), out.rend());
  };
  ASSERT_EQ(webp.substr(12, 4), "VP8L");
  for (int value = 1; value <= 8; ++value) {
    const std::string block = test::exif_block(value, value % 2 == 0);
    const std::string marker = std::string("Exif\0\0", 6) + block;
    folder.write("t.jpg", jpeg.substr(0, 2) + "\xff\xe1" + test::big_endian(static_cast<std::uint32_t>(marker.size() + 2), 2) + marker +
                              jpeg.substr(2));
    folder.write("t.png", png.substr(0, png.size() - 12) + test::png_chunk("eXIf", block) + png.substr(png.size() - 12));
    // An extended file: flags (EXIF present), canvas, then the picture and the EXIF block, padded to an even length.
    const std::string parts = "VP8X" + little(10, 4) + little(8, 4) + little(47, 3) + little(31, 3) + webp.substr(12) + "EXIF" +
                              little(static_cast<std::uint32_t>(block.size()), 4) + block + std::string(block.size() % 2, '\0');
    folder.write("t.webp", "RIFF" + little(static_cast<std::uint32_t>(parts.size() + 4), 4) + "WEBP" + parts);
    for (const char* name : {"t.jpg", "t.png", "t.webp"}) {
      const auto turned = load_picture(folder / name);
      ASSERT_TRUE(turned.ok()) << turned.error().text();
      EXPECT_EQ(test::corners(*turned), test::turned_corners()[static_cast<std::size_t>(value)]) << name << " " << value;
      EXPECT_EQ(turned->width, value >= 5 ? 32 : 48) << name;
    }
  }
}

}  // namespace
}  // namespace tritium
