// Pictures, videos and sounds that the tests of media input hand in.
#pragma once

#include "base/picture.h"
#include "unit/media_clips.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace tritium::test {

// The tests make their files with FFmpeg's program, which the set-up of the project installs.
#define TRITIUM_NEEDS_FFMPEG() \
  if (!test::installed("ffmpeg")) GTEST_SKIP() << "the program ffmpeg is not installed"
#define TRITIUM_NEEDS_ENCODER(name) \
  if (!test::has_encoder(name)) GTEST_SKIP() << "this ffmpeg has no encoder '" << (name) << "'"

inline bool has_encoder(const std::string& name) {
  return output_of("ffmpeg -hide_banner -encoders 2>/dev/null").find(" " + name + " ") != std::string::npos;
}

// Runs ffmpeg in the folder.
inline void ffmpeg(const TempFolder& folder, const std::string& arguments) {
  const std::string command = "cd '" + folder.path().string() + "' && ffmpeg -v error -nostdin -y " + arguments + " 2>&1; echo \"=$?\"";
  const std::string output = output_of(command);
  ASSERT_TRUE(output.ends_with("=0\n")) << command << "\n" << output;
}

inline const std::uint8_t* pixel(const PictureView& picture, int x, int y) {
  return picture.rgb.data() + (static_cast<std::size_t>(y) * static_cast<std::size_t>(picture.width) + static_cast<std::size_t>(x)) * 3;
}

template <class Colour>
Picture paint(int width, int height, const Colour& colour) {
  Picture out{width, height, {}};
  out.rgb.reserve(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : std::array<int, 3>(colour(x, y))) out.rgb.push_back(static_cast<std::uint8_t>(value));
  return out;
}

// Red and green above blue and yellow.
inline Picture corner_picture(int width, int height) {
  return paint(width, height, [&](int x, int y) {
    constexpr std::array<std::array<int, 3>, 4> kColours = {{{220, 20, 20}, {20, 200, 20}, {20, 20, 220}, {220, 220, 20}}};
    return kColours[static_cast<std::size_t>((y < height / 2 ? 0 : 2) + (x < width / 2 ? 0 : 1))];
  });
}

// "RGBY" for the picture above: the colours of the quarters' centres, in the order of reading. "?" for any other colour.
inline std::string corners(const PictureView& picture) {
  std::string out;
  for (const int y : {picture.height / 4, picture.height * 3 / 4})
    for (const int x : {picture.width / 4, picture.width * 3 / 4}) {
      const std::uint8_t* p = pixel(picture, x, y);
      const int bits = (p[0] > 120 ? 4 : 0) + (p[1] > 120 ? 2 : 0) + (p[2] > 120 ? 1 : 0);
      out += "?BG?R?Y?"[bits];
    }
  return out;
}

// How the corners look when EXIF's orientation 1..8 is applied: where row 0 and column 0 then are (top left, top right, bottom right,
// bottom left, left top, right top, right bottom, left bottom).
inline const std::array<std::string, 9>& turned_corners() {
  static const std::array<std::string, 9> kTable = {"RGBY", "RGBY", "GRYB", "YBGR", "BYRG", "RBGY", "BRYG", "YGBR", "GYRB"};
  return kTable;
}

// A number of 10 bits as black and white stripes behind a white and a black one; survives compression and colour conversion.
constexpr int kStripes = 12;
inline Picture numbered_picture(int number, int width = 96, int height = 64) {
  return paint(width, height, [&](int x, int) {
    const int stripe = x * kStripes / width;
    const bool white = stripe == 0 || (stripe >= 2 && ((number >> (stripe - 2)) & 1) != 0);
    return std::array<int, 3>{white ? 235 : 20, white ? 235 : 20, white ? 235 : 20};
  });
}
// -1 when the picture is not such a one.
inline int number_in(const PictureView& picture) {
  int number = 0;
  for (int stripe = 0; stripe < kStripes; ++stripe) {
    const int level = *pixel(picture, (2 * stripe + 1) * picture.width / (2 * kStripes), picture.height / 2);
    if ((level > 70 && level < 180) || (stripe < 2 && (level > 128) != (stripe == 0))) return -1;
    if (stripe >= 2 && level > 128) number |= 1 << (stripe - 2);
  }
  return number;
}

// frames.rgb: numbered pictures 0 .. count - 1, without header; the arguments that make ffmpeg read them at a rate.
inline std::string numbered_frames(const TempFolder& folder, int count, const std::string& rate, int width = 96, int height = 64) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const Picture picture = numbered_picture(i, width, height);
    bytes.append(picture.rgb.begin(), picture.rgb.end());
  }
  folder.write("frames.rgb", bytes);
  return fmt::format("-f rawvideo -pixel_format rgb24 -video_size {}x{} -framerate {} -i frames.rgb", width, height, rate);
}

// ffmpeg's arguments for a tone of its own in each channel: `hertz` for the first, twice that for the second, and so on.
inline std::string tones(int channels, int rate, double seconds, int hertz, const std::string& layout) {
  std::string expression;
  for (int c = 0; c < channels; ++c) expression += fmt::format("{}0.5*sin(2*PI*{}*t)", c == 0 ? "" : "|", hertz * (c + 1));
  return fmt::format("-f lavfi -i \"aevalsrc='{}':s={}:d={}:c={}\"", expression, rate, seconds, layout);
}

// Amplitude of one frequency in a sound.
inline double amplitude(std::span<const float> sound, double hertz, int rate) {
  double a = 0, b = 0;
  for (std::size_t i = 0; i < sound.size(); ++i) {
    const double angle = 2 * std::numbers::pi * hertz * static_cast<double>(i) / rate;
    a += sound[i] * std::cos(angle);
    b += sound[i] * std::sin(angle);
  }
  return 2 * std::hypot(a, b) / static_cast<double>(std::max<std::size_t>(sound.size(), 1));
}

// The error names the file and says more than that.
inline void expect_clear(const Error& error, const std::filesystem::path& path, ErrorCode code = ErrorCode::usage) {
  EXPECT_EQ(error.code, code) << error.text();
  EXPECT_NE(error.message.find(path.string()), std::string::npos) << error.text();
  EXPECT_GT(error.message.size(), path.string().size() + 10) << error.text();
}

}  // namespace tritium::test
