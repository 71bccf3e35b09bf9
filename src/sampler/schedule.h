// Noise levels of a run. Source: spec/dit.md §10.1.
//   sigma(b) = s*b / (1 + (s-1)*b), b = linear noise level from 1 to 0, s = shift (12 for video, 3 for audio)
#pragma once

#include <tritium/result.h>

#include <vector>

namespace tritium {

inline constexpr int kMaxSteps = 1000;
inline constexpr double kVideoShift = 12.0;
inline constexpr double kAudioShift = 3.0;

// What "N steps" means. `evaluations`: N evaluations of the model (the default, and what Turbo recipes count). `grid_points`: N noise
// levels including the final 0, that is N-1 evaluations. `comfy_simple`: N evaluations at entries of a table of 1000 levels.
enum class StepConvention { evaluations, grid_points, comfy_simple };

struct Schedule {
  std::vector<float> sigmas;  // one per evaluation, then the final 0; bit for bit the references' float32 values

  [[nodiscard]] int evaluations() const { return static_cast<int>(sigmas.size()) - 1; }
  // Precondition of all: 0 <= i < evaluations().
  [[nodiscard]] float sigma(int i) const { return sigmas[static_cast<std::size_t>(i)]; }
  [[nodiscard]] float next_sigma(int i) const { return sigmas[static_cast<std::size_t>(i) + 1]; }
  // sigma*1000 in float32, the number that the references print.
  [[nodiscard]] float reported_timestep(int i) const { return sigma(i) * 1000.0f; }
  // The time that the model is given, 1 - timestep/1000: 0 is pure noise, 1 is clean.
  [[nodiscard]] float time(int i) const { return static_cast<float>(exact_time(i)); }
  [[nodiscard]] double exact_time(int i) const { return 1.0 - static_cast<double>(reported_timestep(i)) / 1000.0; }
};

// Errors (usage): field "steps" outside 1..1000 (2..1000 for grid_points); field "shift" not finite or outside 0.1..100.
Result<Schedule> make_schedule(int steps, double shift, StepConvention convention = StepConvention::evaluations);

// The audio noise level at the same linear level as a video noise level (spec/dit.md §10.3). Precondition: shifts as above.
[[nodiscard]] double audio_sigma_of(double video_sigma, double video_shift, double audio_shift);

}  // namespace tritium
