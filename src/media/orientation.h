// How a stored picture has to be turned to stand upright: what EXIF and video containers say about it, and doing it.
#pragma once

#include "base/picture.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace tritium {

// Mirrored along the main diagonal if transpose, then from left to right if flip_x, then upside down if flip_y. In this form every
// combination of quarter turns and mirrors has exactly one value.
struct Orientation {
  bool transpose = false, flip_x = false, flip_y = false;

  [[nodiscard]] bool upright() const { return !transpose && !flip_x && !flip_y; }
  bool operator==(const Orientation&) const = default;
};

// EXIF's tag 0x0112: 1..8. Every other value means upright.
Orientation exif_orientation(unsigned value);
// The tag's value in an EXIF block: a TIFF structure, with or without "Exif" and two zero bytes in front. 1 when the block does not have
// the tag or is damaged, as such blocks often are: it is no reason to refuse the picture.
unsigned exif_orientation_tag(std::span<const std::uint8_t> block);

// The upper left 2x2 of a display matrix as MP4 stores it, by rows {a, b, c, d}: the point (x, y) is shown at (a x + c y, b x + d y).
// A matrix without an inverse says nothing and counts as upright; nullopt: neither a quarter turn nor a mirror. Scale is ignored.
std::optional<Orientation> matrix_orientation(const std::array<std::int32_t, 4>& matrix);

// In place when the sides keep their lengths; otherwise a second picture is in memory for a while.
void turn(Picture& picture, const Orientation& orientation);

}  // namespace tritium
