// What a request's acceleration comes to (docs/accelerations.md): checked and decided for the plan, and what it means for the stages.
#pragma once

#include "pipeline/memory_plan.h"
#include "sampler/evaluation_policy.h"
#include "sampler/retake.h"

#include <tritium/plan.h>

namespace tritium {

inline constexpr std::int64_t kMostCoreReuse = 6;
inline constexpr double kMostEasyCache = 3;
// With so few steps they differ too much for one to stand for another.
inline constexpr int kFewSteps = 8;

// Into the plan, with warnings where it is of no use. `layers`: blocks of the model. The plan's steps are decided. Errors (usage) name
// field, value and range, or the fields that contradict each other.
Result<void> decide_acceleration(const Request& request, std::int64_t layers, Plan& plan);

// To be asked when the plan's latents are known: at some sizes a draft is no cheaper, and the plan says so.
void warn_of_useless_draft(const video_vae::VideoVaeConfig& config, Plan& plan);

[[nodiscard]] video_vae::Decoding decoding_of(const Plan& plan);

// For the costs.
[[nodiscard]] AcceleratedShape accelerated_shape(const Plan& plan);

// Which evaluations a run of this plan computes.
std::unique_ptr<EvaluationPolicy> make_policy(const Plan& plan, const Retake& retake);

// "4 of 5 blocks, velocities reused at 13 of 20 steps"; empty without acceleration.
std::string acceleration_text(const Plan& plan);

}  // namespace tritium
