// The tensors of each part of a model, by official names, for models that do not exist: shapes from a configuration, values so scaled that
// activations stay moderate through all layers. Sources of names and shapes: spec/dit.md §2, spec/text.md §6, spec/vae.md §1.10, §2.7.
//
// Values: matrices and convolutions have the deviation 1/sqrt(fan in); those that add to a residual stream less, so that it grows mildly.
// Norms are near 1, those of blocks with a large value now and then, as real models have columns that stand out.
#pragma once

#include "model/audio_vae/config.h"
#include "model/dit/config.h"
#include "model/text/text_config.h"
#include "model/video_vae/config.h"
#include "model/vision/vision_config.h"
#include "weights/synth/fill.h"

namespace tritium {

std::vector<SynthTensor> synth_dit(const DitConfig& config);  // pruned if the configuration is
std::vector<SynthTensor> synth_text(const TextConfig& text, const VisionConfig& vision);
std::vector<SynthTensor> synth_video_vae(const video_vae::VideoVaeConfig& config);
std::vector<SynthTensor> synth_audio_vae(const audio_vae::AudioVaeConfig& config);

}  // namespace tritium
