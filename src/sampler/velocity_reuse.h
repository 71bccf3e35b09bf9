// Velocities between two evaluations by extrapolation. Source: spec/dit.md §14.
// At a skipped step each stream takes v = v_last + ρ·(v_last − v_prev), ρ = (σ − σ_last) / (σ_last − σ_prev) within −2 .. 2, of the last
// two velocities that the model gave; with one of them only, v = v_last.
#pragma once

#include "sampler/evaluation_policy.h"
#include "sampler/schedule.h"

#include <span>

namespace tritium {

// ρ. Precondition: last_sigma != previous_sigma.
[[nodiscard]] float extrapolation(float sigma, float last_sigma, float previous_sigma);
// last + ρ·(last − previous), element by element, float32. Precondition: equal sizes.
[[nodiscard]] std::vector<float> extrapolate(std::span<const float> last, std::span<const float> previous, float rho);

// The model is computed at every `every`-th step (is_kth()).
class VelocityReuse final : public EvaluationPolicy {
 public:
  VelocityReuse(int every, Schedule video, Schedule audio) : every_(every), video_(std::move(video)), audio_(std::move(audio)) {}
  [[nodiscard]] VelocitySource choose(int step, const Latents& x) override;
  void learn(int step, const Latents& x, const Latents& velocity) override;
  [[nodiscard]] Latents estimate(int step, const Latents& x) const override;
  [[nodiscard]] std::optional<PolicyMemory> memory(int next_step) const override;
  [[nodiscard]] Result<void> restore(PolicyMemory memory) override;

 private:
  struct Computed {
    int step = -1;  // none
    Latents velocity;
  };
  int every_;
  Schedule video_, audio_;
  Computed last_, previous_;
};

}  // namespace tritium
