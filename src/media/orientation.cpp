#include "media/orientation.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tritium {
namespace {

constexpr unsigned kOrientationTag = 0x0112;
constexpr unsigned kShort = 3, kLong = 4;  // TIFF's types of 2 and 4 bytes

// Numbers in a TIFF structure; 0 behind its end.
class Tiff {
 public:
  Tiff(std::span<const std::uint8_t> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  [[nodiscard]] std::uint32_t number(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return 0;
    std::uint32_t out = 0;
    for (std::size_t i = 0; i < size; ++i) out = out << 8 | bytes_[at + (big_endian_ ? i : size - 1 - i)];
    return out;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool big_endian_;
};

void swap_pixels(std::uint8_t* a, std::uint8_t* b) { std::swap_ranges(a, a + 3, b); }

void flip_rows(Picture& picture) {
  const std::size_t stride = static_cast<std::size_t>(picture.width) * 3;
  std::uint8_t* first = picture.rgb.data();
  for (int top = 0, bottom = picture.height - 1; top < bottom; ++top, --bottom)
    std::swap_ranges(first + static_cast<std::size_t>(top) * stride, first + static_cast<std::size_t>(top + 1) * stride,
                     first + static_cast<std::size_t>(bottom) * stride);
}

void flip_columns(Picture& picture) {
  for (int y = 0; y < picture.height; ++y) {
    std::uint8_t* row = picture.rgb.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(picture.width) * 3;
    for (int left = 0, right = picture.width - 1; left < right; ++left, --right)
      swap_pixels(row + static_cast<std::size_t>(left) * 3, row + static_cast<std::size_t>(right) * 3);
  }
}

// In squares, so that the lines of both pictures stay in the cache.
void transpose(Picture& picture) {
  constexpr int kSquare = 64;
  const int width = picture.width, height = picture.height;
  std::vector<std::uint8_t> out(picture.rgb.size());
  for (int top = 0; top < height; top += kSquare)
    for (int left = 0; left < width; left += kSquare)
      for (int y = top; y < std::min(top + kSquare, height); ++y)
        for (int x = left; x < std::min(left + kSquare, width); ++x)
          std::memcpy(
              out.data() + (static_cast<std::size_t>(x) * static_cast<std::size_t>(height) + static_cast<std::size_t>(y)) * 3,
              picture.rgb.data() + (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) * 3, 3);
  picture.rgb = std::move(out);
  std::swap(picture.width, picture.height);
}

}  // namespace

Orientation exif_orientation(unsigned value) {
  constexpr std::array<Orientation, 9> kTable = {{{},
                                                  {},
                                                  {false, true, false},   // 2: mirrored
                                                  {false, true, true},    // 3: upside down
                                                  {false, false, true},   // 4
                                                  {true, false, false},   // 5
                                                  {true, true, false},    // 6: to be turned to the right
                                                  {true, true, true},     // 7
                                                  {true, false, true}}};  // 8: to be turned to the left
  return value < kTable.size() ? kTable[value] : Orientation{};
}

unsigned exif_orientation_tag(std::span<const std::uint8_t> block) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  const auto starts_with = [&](std::string_view text) {
    return block.size() >= text.size() && std::equal(text.begin(), text.end(), block.begin());
  };
  if (starts_with(kPrefix)) block = block.subspan(kPrefix.size());
  const bool big_endian = starts_with("MM");
  if (!big_endian && !starts_with("II")) return 1;
  const Tiff tiff(block, big_endian);
  if (tiff.number(2, 2) != 42) return 1;
  const std::size_t directory = tiff.number(4, 4), entries = tiff.number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;  // tag 2, type 2, count 4, value 4
    if (entry > block.size()) return 1;
    if (tiff.number(entry, 2) != kOrientationTag || tiff.number(entry + 4, 4) != 1) continue;
    const unsigned type = tiff.number(entry + 2, 2);
    const unsigned value = type == kShort ? tiff.number(entry + 8, 2) : type == kLong ? tiff.number(entry + 8, 4) : 1;
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

std::optional<Orientation> matrix_orientation(const std::array<std::int32_t, 4>& matrix) {
  const auto [a, b, c, d] = matrix;
  const auto straight = static_cast<std::int64_t>(a) * d, crossed = static_cast<std::int64_t>(b) * c;
  if (straight == crossed) return Orientation{};
  // Writers round, so that an entry may be slightly off 0.
  const auto small = [](std::int64_t part, std::int64_t other) { return std::abs(part) * 1000 < std::abs(other); };
  if (small(b, a) && small(c, a) && small(b, d) && small(c, d)) return Orientation{false, a < 0, d < 0};
  if (small(a, b) && small(d, b) && small(a, c) && small(d, c)) return Orientation{true, c < 0, b < 0};
  return std::nullopt;
}

void turn(Picture& picture, const Orientation& orientation) {
  if (orientation.transpose) transpose(picture);
  if (orientation.flip_x) flip_columns(picture);
  if (orientation.flip_y) flip_rows(picture);
}

}  // namespace tritium
