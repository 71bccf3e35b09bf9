// Times of a video's stored frames in slots of 1/24 s: the holding rule of spec/text.md §5.5, by timestamps.
#pragma once

#include <cstdint>

namespace tritium {

inline constexpr int kModelFps = 24;

struct Fraction {
  int num = 0, den = 1;
};

// A frame shown from time t on starts at slot floor(24 t + 0.5) and fills the slots up to the start of the next frame, possibly none.
// Containers round timestamps, which would move frames of a steady rate that fall near the middle between two slots: a timestamp that
// lies within one tick of a multiple of the file's nominal rate is taken as exactly that multiple.
class FrameClock {
 public:
  // tick: seconds per unit of the timestamps, positive. rate: the nominal frames per second, num 0 when unknown.
  FrameClock(Fraction tick, Fraction rate) : tick_(tick), rate_(rate) {}

  // Timestamp 0 is the first frame's. Negative timestamps count as 0; INT64_MAX when the slot has no number.
  [[nodiscard]] std::int64_t slot(std::int64_t timestamp) const;
  // Ticks that a frame lasts at the nominal rate, at least 1; 1 when it is unknown.
  [[nodiscard]] std::int64_t nominal_duration() const;

 private:
  Fraction tick_, rate_;
};

}  // namespace tritium
