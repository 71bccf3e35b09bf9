#include "sampler/evaluation_policy.h"

namespace tritium {

int count_kth(int steps, int every) {
  int count = 0;
  for (int step = 0; step < steps; ++step) count += is_kth(step, steps, every) ? 1 : 0;
  return count;
}

VelocitySource EvaluationPolicy::choose(int, const Latents&) { return VelocitySource::model; }
void EvaluationPolicy::learn(int, const Latents&, const Latents&) {}
Latents EvaluationPolicy::estimate(int, const Latents&) const { return {}; }
std::optional<PolicyMemory> EvaluationPolicy::memory(int) const { return PolicyMemory{}; }
Result<void> EvaluationPolicy::restore(PolicyMemory) { return {}; }

VelocitySource CoreReuse::choose(int step, const Latents&) {
  return is_kth(step, steps_, every_) ? VelocitySource::model : VelocitySource::core;
}

// What the blocks added lies on the device.
std::optional<PolicyMemory> CoreReuse::memory(int next_step) const {
  return is_kth(next_step, steps_, every_) ? std::optional(PolicyMemory{}) : std::nullopt;
}

}  // namespace tritium
