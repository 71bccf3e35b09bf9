// How files name the tensors of the two VAEs and order their rows (spec/vae.md §1.10, §2.7; spec/weights.md §1.5).
#pragma once

#include "weights/part.h"

namespace tritium {

enum class VideoVaeLayout {
  official,   // also ComfyUI's and DiffSynth's files, whatever their prefix
  diffusers,  // other names; separate to_q, to_k, to_v; the halves of the first feed-forward matrix swapped
};

// Error code model: not this VAE.
Result<VideoVaeLayout> detect_video_vae_layout(const LogicalTensors& tensors);

// The diffusers name of an official one; decoder...attn.to_q, to_k and to_v stand for the three parts of attn.to_qkv.
std::string diffusers_video_vae_name(std::string official);

// Places of official names. The official rows of decoder...attn.to_qkv are [heads][q, k, v][head_dim]; `head_dim` is only needed for
// diffusers files, which show nothing of it. Parameters that DiffSynth renamed by appending ".weight" are found under both names.
Naming video_vae_naming(const LogicalTensors& tensors, VideoVaeLayout layout, std::int64_t head_dim);
Naming audio_vae_naming(const LogicalTensors& tensors);

// Opens a VAE with its names. Errors: LogicalTensors::open's; code model if the file is not that VAE.
Result<std::shared_ptr<const WeightPart>> open_video_vae(std::shared_ptr<const Checkpoint> checkpoint, std::int64_t head_dim);
Result<std::shared_ptr<const WeightPart>> open_audio_vae(std::shared_ptr<const Checkpoint> checkpoint);

}  // namespace tritium
