#include "sampler/schedule.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

constexpr double kMinShift = 0.1;
constexpr double kMaxShift = 100.0;
constexpr int kTableLevels = 1000;  // of the table that `comfy_simple` reads

// Element i of `points` levels from 1 to 0. The references compute it with fused multiply-add from the nearer end.
float linear_level(int i, int points) {
  const float step = -1.0f / static_cast<float>(points - 1);
  return i < points / 2 ? std::fma(step, static_cast<float>(i), 1.0f) : -step * static_cast<float>(points - 1 - i);
}

float shifted(float level, double shift) {
  const float numerator = static_cast<float>(shift) * level;
  return numerator / (1.0f + static_cast<float>(shift - 1.0) * level);
}

float level_of(int i, int steps, StepConvention convention) {
  switch (convention) {
    case StepConvention::evaluations:
      return linear_level(i, steps + 1);
    case StepConvention::grid_points:
      return linear_level(i, steps);
    case StepConvention::comfy_simple:
      break;
  }
  return static_cast<float>(static_cast<double>(kTableLevels - i * kTableLevels / steps) / kTableLevels);
}

}  // namespace

Result<Schedule> make_schedule(int steps, double shift, StepConvention convention) {
  const int least = convention == StepConvention::grid_points ? 2 : 1;
  if (steps < least || steps > kMaxSteps) {
    return Error{ErrorCode::usage, fmt::format("{} steps requested, {}..{} are possible", steps, least, kMaxSteps), "steps",
                 fmt::format("the nearest possible value is {}", std::clamp(steps, least, kMaxSteps))};
  }
  if (!(shift >= kMinShift && shift <= kMaxShift)) {
    return Error{ErrorCode::usage, fmt::format("a shift of {} is outside {}..{}", shift, kMinShift, kMaxShift), "shift",
                 fmt::format("usual values are {} for video and {} for audio", kVideoShift, kAudioShift)};
  }
  const int evaluations = convention == StepConvention::grid_points ? steps - 1 : steps;
  Schedule schedule;
  schedule.sigmas.reserve(static_cast<std::size_t>(evaluations) + 1);
  for (int i = 0; i < evaluations; ++i) schedule.sigmas.push_back(shifted(level_of(i, steps, convention), shift));
  schedule.sigmas.push_back(0.0f);
  return schedule;
}

double audio_sigma_of(double video_sigma, double video_shift, double audio_shift) {
  const double level = video_sigma / (video_shift - (video_shift - 1.0) * video_sigma);
  return audio_shift * level / (1.0 + (audio_shift - 1.0) * level);
}

}  // namespace tritium
