// Operations and memory of each stage, from dimensions alone (spec/dit.md §15, spec/vae.md §1.11 and §2.8).
// Counted are products and attention; what is left out (norms, activations) is below two per cent.
#pragma once

#include "pipeline/plan.h"

namespace tritium {

struct StageCost {
  double flops = 0;
  std::uint64_t working_bytes = 0;
  double attention_flops = 0;  // of flops: attention, which runs at a speed of its own
};

StageCost text_cost(const TextConfig& config, std::int64_t tokens);
// What of the transformer is computed.
struct DenoiseWork {
  int steps = 0;
  int evaluations = 0;      // in which blocks run
  std::int64_t blocks = 0;  // that run
  bool residual = false;    // what they add is kept
};
// `rows` of the packed sequence, `targets` of them denoised.
StageCost denoise_cost(const DitConfig& config, std::int64_t rows, std::int64_t text_rows, std::int64_t targets, const DenoiseWork& work);
StageCost video_decode_cost(const video_vae::VideoVaeConfig& config, int latent_frames, int latent_height, int latent_width,
                            video_vae::Decoding decoding = video_vae::Decoding::full);
StageCost audio_decode_cost(const audio_vae::AudioVaeConfig& config, std::int64_t latents);

}  // namespace tritium
