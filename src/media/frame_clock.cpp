#include "media/frame_clock.h"

#include <algorithm>
#include <limits>

extern "C" {
#include <libavutil/mathematics.h>
}

namespace tritium {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr AVRational kSlot = {1, kModelFps};

// Halves go up: floor(x + 0.5) for x >= 0. av_rescale_* answers INT64_MIN where the result has no 64-bit number.
std::int64_t rounded(std::int64_t count, AVRational from, AVRational to) {
  const std::int64_t out = av_rescale_q_rnd(count, from, to, AV_ROUND_NEAR_INF);
  return out < 0 ? kNever : out;
}

}  // namespace

std::int64_t FrameClock::slot(std::int64_t timestamp) const {
  timestamp = std::max<std::int64_t>(timestamp, 0);
  const AVRational tick = {tick_.num, tick_.den};
  if (rate_.num > 0 && rate_.den > 0) {
    const AVRational period = {rate_.den, rate_.num};
    const std::int64_t index = rounded(timestamp, tick, period);
    const std::int64_t below = av_rescale_q_rnd(index, period, tick, AV_ROUND_DOWN),
                       above = av_rescale_q_rnd(index, period, tick, AV_ROUND_UP);
    if (index != kNever && below >= 0 && above >= 0 && timestamp >= above - 1 && timestamp <= below + 1)
      return rounded(index, period, kSlot);
  }
  return rounded(timestamp, tick, kSlot);
}

std::int64_t FrameClock::nominal_duration() const {
  if (rate_.num <= 0 || rate_.den <= 0) return 1;
  return std::max<std::int64_t>(1, av_rescale_q({1}, {rate_.den, rate_.num}, {tick_.num, tick_.den}));
}

}  // namespace tritium
