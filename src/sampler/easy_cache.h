// Evaluations are left out while the model's output is expected to change little. Source: spec/dit.md §14 (EasyCache).
//
// `in` is the state, `out` the noise-ward output (−v). Statistics are means of absolute values over every 8th element that is made anew,
// each stream by itself. The last two evaluations give k = mean|Δout| / mean|Δin|. At a step, k·mean|in − in_last| / mean|out_last| is
// added up; while the sum of every stream is below the threshold, out = in + (out − in)_last, else the model is computed and the sums
// begin anew. The first and the last step, those outside the active part of the run, and those where a sum is not finite are computed.
#pragma once

#include "sampler/evaluation_policy.h"
#include "sampler/retake.h"

namespace tritium {

struct EasyCacheOptions {
  double threshold = 0.2;
  double start = 0.15, end = 0.95;  // the active part: start <= step / steps < end
};

inline constexpr std::size_t kEasyCacheStride = 8;

class EasyCache final : public EvaluationPolicy {
 public:
  // `elements`: those that statistics are taken over (Retake::regenerated()).
  EasyCache(EasyCacheOptions options, int steps, LatentElements elements)
      : options_(options), steps_(steps), elements_(std::move(elements)) {}
  [[nodiscard]] VelocitySource choose(int step, const Latents& x) override;
  void learn(int step, const Latents& x, const Latents& velocity) override;
  [[nodiscard]] Latents estimate(int step, const Latents& x) const override;
  [[nodiscard]] std::optional<PolicyMemory> memory(int next_step) const override;
  [[nodiscard]] Result<void> restore(PolicyMemory memory) override;

 private:
  // Of one stream, at the last evaluation.
  struct Stream {
    std::vector<float> in, out;     // the chosen elements
    float rate = 0;                 // k
    float change = 0;               // the sum
    std::vector<float> difference;  // out − in, all elements
  };
  [[nodiscard]] bool is_active(int step) const;

  EasyCacheOptions options_;
  int steps_;
  LatentElements elements_;
  int evaluations_ = 0;
  Stream video_, audio_;
};

}  // namespace tritium
