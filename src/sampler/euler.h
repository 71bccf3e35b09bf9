// One Euler step of the flow. Source: spec/dit.md §10.2.
// Sign: a velocity points towards the data, x0 = x + sigma*v, as the model computes it (some tools print its negative, the
// "noise prediction"). No noise is added; everything is float32.
#pragma once

#include "sampler/latents.h"
#include "sampler/schedule.h"

#include <tritium/result.h>

#include <span>

namespace tritium {

// x <- x - v*(next_sigma - sigma), element by element, for latents in any order. Error (failure, field "latents"): sizes differ.
Result<void> euler_step(std::span<float> x, std::span<const float> velocity, float sigma, float next_sigma);

// Step `step` of both streams, each on its own schedule. Error (failure): sizes differ, or the schedules do not both have this step.
Result<void> euler_step(Latents& x, const Latents& velocity, const Schedule& video, const Schedule& audio, int step);

}  // namespace tritium
