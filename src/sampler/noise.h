// Seed -> noise, bit for bit what the named implementation draws in float32. Source: spec/dit.md §8, §11.1.
#pragma once

#include "model/geometry/patchify.h"
#include "sampler/latents.h"

#include <tritium/result.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tritium {

// Who draws what. `diffsynth` (default): video and audio in latent order, each from a new generator with the same seed.
// `sglang`: the same, audio drawn in row order [2*A, dim]. `comfyui`: one generator, video, then audio as [dim, 2, A].
enum class NoiseMode { diffsynth, sglang, comfyui };

// Initial state of both streams. Precondition: no negative dimension.
[[nodiscard]] Latents draw_initial_noise(NoiseMode mode, std::uint64_t seed, const VideoLatentShape& video, const AudioLatentShape& audio);

// Noise for the visual conditions (keyframes, or reference images and videos) of a run, as packed rows [sum of rows, channels*4] in
// the order of the conditions. `target_frames`: T of the clip to generate; in the modes diffsynth and sglang the values depend on it
// and on the number of conditions. Error (failure, field "latents"): an impossible shape.
Result<std::vector<float>> draw_condition_noise(NoiseMode mode, std::uint64_t seed, int target_frames,
                                                std::span<const VideoLatentShape> conditions);

// Visual condition rows as the model sees them during the whole run: 0.999*clean + 0.001*noise, each product rounded. (Reference
// sound is used clean.) Error (failure, field "latents"): sizes differ.
Result<std::vector<float>> mix_condition_anchors(std::span<const float> clean_rows, std::span<const float> noise_rows);

}  // namespace tritium
