// Which evaluations of the model a run computes, and what stands in for the others. Source: spec/dit.md §14.
// A policy sees both streams together, belongs to one run, and decides by the values it is shown alone.
#pragma once

#include "sampler/latents.h"

#include <tritium/result.h>

#include <map>
#include <optional>
#include <string>

namespace tritium {

// Where the velocity of a step comes from.
enum class VelocitySource {
  model,     // all its blocks
  core,      // what the blocks added at the last step that ran them, and everything around them anew
  estimate,  // EvaluationPolicy::estimate()
};

// What a policy remembers, by name: a run that is taken up elsewhere gets it back.
using PolicyMemory = std::map<std::string, std::vector<float>>;

// The first and the last of `steps` evaluations, and every `every`-th. Precondition: every >= 1.
[[nodiscard]] constexpr bool is_kth(int step, int steps, int every) { return step == 0 || step == steps - 1 || step % every == 0; }
[[nodiscard]] int count_kth(int steps, int every);

// As it stands: every evaluation is computed and nothing is remembered. Steps are numbered from 0.
class EvaluationPolicy {
 public:
  virtual ~EvaluationPolicy() = default;

  // To be asked once for every step, in order. `x`: the state before it.
  [[nodiscard]] virtual VelocitySource choose(int step, const Latents& x);
  // What the model gave at this step.
  virtual void learn(int step, const Latents& x, const Latents& velocity);
  // Data-ward velocity. Precondition: choose() has just said `estimate` of this step.
  [[nodiscard]] virtual Latents estimate(int step, const Latents& x) const;

  // What is remembered before `next_step`; none where a run cannot be taken up, because what it needs is kept elsewhere.
  [[nodiscard]] virtual std::optional<PolicyMemory> memory(int next_step) const;
  // Error (failure): it is not the memory of such a policy.
  [[nodiscard]] virtual Result<void> restore(PolicyMemory memory);
};

// The blocks run at every `every`-th step (is_kth()).
class CoreReuse final : public EvaluationPolicy {
 public:
  CoreReuse(int steps, int every) : steps_(steps), every_(every) {}
  [[nodiscard]] VelocitySource choose(int step, const Latents& x) override;
  [[nodiscard]] std::optional<PolicyMemory> memory(int next_step) const override;

 private:
  int steps_, every_;
};

}  // namespace tritium
