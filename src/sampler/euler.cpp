#include "sampler/euler.h"

#include "base/try.h"

#include <fmt/format.h>

namespace tritium {

Result<void> euler_step(std::span<float> x, std::span<const float> velocity, float sigma, float next_sigma) {
  if (x.size() != velocity.size()) {
    return Error{ErrorCode::failure, fmt::format("a velocity of {} values does not fit a latent of {}", velocity.size(), x.size()),
                 "latents", ""};
  }
  const float delta = next_sigma - sigma;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= velocity[i] * delta;
  return {};
}

Result<void> euler_step(Latents& x, const Latents& velocity, const Schedule& video, const Schedule& audio, int step) {
  if (step < 0 || step >= video.evaluations() || step >= audio.evaluations()) {
    return Error{ErrorCode::failure,
                 fmt::format("step {} does not exist: video has {} steps, audio {}", step, video.evaluations(), audio.evaluations()),
                 "steps", ""};
  }
  TRITIUM_TRY(euler_step(x.video, velocity.video, video.sigma(step), video.next_sigma(step)));
  return euler_step(x.audio, velocity.audio, audio.sigma(step), audio.next_sigma(step));
}

}  // namespace tritium
