// Operations and memory of each stage, from dimensions alone (spec/dit.md §15, spec/vae.md §1.11 and §2.8).
// Counted are products and attention; what is left out (norms, activations) is below two per cent.
#pragma once

#include "pipeline/plan.h"

namespace tritium {

struct StageWork {
  double flops = 0;
  double attention_flops = 0;  // of flops: attention, which runs at a speed of its own
  double values = 0;  // of all matrices, each as often as a product goes through it; of sound, of the signal before every convolution
  // Of both: matrices that files leave in bfloat16 whatever the format of the others.
  double plain_flops = 0, plain_values = 0;
};

struct StageCost : StageWork {
  std::uint64_t working_bytes = 0;
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
