// PNG files of every kind, written byte by byte from the format's definition, independent of the library that reads them.
#pragma once

#include <zlib.h>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tritium::test {

inline std::string big_endian(std::uint32_t value, int bytes = 4) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

inline std::string png_chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}

inline std::string deflated(const std::string& data) {
  uLongf size = compressBound(static_cast<uLong>(data.size()));
  std::string out(size, '\0');
  compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(data.data()), static_cast<uLong>(data.size()), 6);
  out.resize(size);
  return out;
}

inline std::string png_header(std::uint32_t width, std::uint32_t height, int depth, int colour, bool interlaced = false) {
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", big_endian(width) + big_endian(height) + big_endian(static_cast<std::uint32_t>(depth), 1) +
                                                     big_endian(static_cast<std::uint32_t>(colour), 1) + std::string(2, '\0') +
                                                     big_endian(interlaced ? 1 : 0, 1));
}

// Samples in the order of the pixels, `channels` each (1 for grey and palette, 2 grey and alpha, 3 RGB, 4 RGBA).
struct PngSource {
  int width = 0, height = 0, depth = 8, colour = 2, channels = 3;
  std::vector<std::uint16_t> samples;
  std::string before, behind;  // further chunks around the pixels
  bool interlaced = false;
};

// One rectangle of every step-th pixel, unfiltered, samples packed from the high bit on.
inline std::string png_pass(const PngSource& source, int x0, int y0, int dx, int dy) {
  std::string out;
  for (int y = y0; y < source.height && x0 < source.width; y += dy) {
    out += '\0';
    unsigned bits = 0;
    int used = 0;
    for (int x = x0; x < source.width; x += dx)
      for (int c = 0; c < source.channels; ++c) {
        const unsigned value = source.samples[static_cast<std::size_t>((y * source.width + x) * source.channels + c)];
        if (source.depth == 16) out += static_cast<char>(value >> 8);
        bits = bits << (source.depth & 15) | (source.depth == 16 ? value & 0xff : value);
        used += source.depth == 16 ? 8 : source.depth;
        if (used == 8) out += static_cast<char>(std::exchange(bits, 0) & 0xff), used = 0;
      }
    if (used > 0) out += static_cast<char>(bits << (8 - used) & 0xff);
  }
  return out;
}

inline std::string png_file(const PngSource& source) {
  std::string pixels;
  if (source.interlaced) {
    constexpr int kPasses[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    for (const auto& pass : kPasses) pixels += png_pass(source, pass[0], pass[1], pass[2], pass[3]);
  } else {
    pixels = png_pass(source, 0, 0, 1, 1);
  }
  return png_header(static_cast<std::uint32_t>(source.width), static_cast<std::uint32_t>(source.height), source.depth, source.colour,
                    source.interlaced) +
         source.before + png_chunk("IDAT", deflated(pixels)) + source.behind + png_chunk("IEND", "");
}

// An EXIF block that holds the orientation only.
inline std::string exif_block(int orientation, bool big = true) {
  const auto number = [&](std::uint32_t value, int bytes) {
    std::string out = big_endian(value, bytes);
    return big ? out : std::string(out.rbegin(), out.rend());
  };
  return (big ? std::string("MM") : std::string("II")) + number(42, 2) + number(8, 4) + number(1, 2) + number(0x0112, 2) + number(3, 2) +
         number(1, 4) + number(static_cast<std::uint32_t>(orientation), 2) + number(0, 2) + number(0, 4);
}

}  // namespace tritium::test
