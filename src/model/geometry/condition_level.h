// How clean condition rows are: the time the model is told and the weight of the clean latent in the mix describe the same level.
// Source: spec/dit.md §7, §8.
#pragma once

namespace tritium {

inline constexpr float kVisualConditionLevel = 0.999f;  // keyframes, reference images and videos
inline constexpr float kCleanConditionLevel = 1.0f;     // reference sound, and everything that a retake keeps

}  // namespace tritium
