#include "sampler/velocity_reuse.h"

#include <algorithm>

namespace tritium {

float extrapolation(float sigma, float last_sigma, float previous_sigma) {
  return std::clamp((sigma - last_sigma) / (last_sigma - previous_sigma), -2.0f, 2.0f);
}

std::vector<float> extrapolate(std::span<const float> last, std::span<const float> previous, float rho) {
  std::vector<float> out(last.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = last[i] + rho * (last[i] - previous[i]);
  return out;
}

VelocitySource VelocityReuse::choose(int step, const Latents&) {
  return last_.step < 0 || is_kth(step, video_.evaluations(), every_) ? VelocitySource::model : VelocitySource::estimate;
}

void VelocityReuse::learn(int step, const Latents&, const Latents& velocity) {
  previous_ = std::move(last_);
  last_ = {step, velocity};
}

Latents VelocityReuse::estimate(int step, const Latents&) const {
  if (previous_.step < 0) return last_.velocity;
  const auto rho = [&](const Schedule& s) { return extrapolation(s.sigma(step), s.sigma(last_.step), s.sigma(previous_.step)); };
  return {extrapolate(last_.velocity.video, previous_.velocity.video, rho(video_)),
          extrapolate(last_.velocity.audio, previous_.velocity.audio, rho(audio_))};
}

std::optional<PolicyMemory> VelocityReuse::memory(int) const {
  return PolicyMemory{{"steps", {static_cast<float>(last_.step), static_cast<float>(previous_.step)}},
                      {"last.video", last_.velocity.video},
                      {"last.audio", last_.velocity.audio},
                      {"previous.video", previous_.velocity.video},
                      {"previous.audio", previous_.velocity.audio}};
}

Result<void> VelocityReuse::restore(PolicyMemory memory) {
  const std::vector<float> steps = memory["steps"];
  if (steps.size() != 2) return Error{ErrorCode::failure, "the velocities of earlier steps are missing", "checkpoint", ""};
  last_ = {static_cast<int>(steps[0]), {std::move(memory["last.video"]), std::move(memory["last.audio"])}};
  previous_ = {static_cast<int>(steps[1]), {std::move(memory["previous.video"]), std::move(memory["previous.audio"])}};
  return {};
}

}  // namespace tritium
