// Weights of the audio decoder on a device. Names: spec/vae.md §2.7.
#pragma once

#include "device/params.h"
#include "model/audio_vae/config.h"
#include "ops/convolution.h"
#include "ops/snake.h"

namespace tritium::audio_vae {

// One step of a residual branch: x + second(activation(first(activation(x)))).
struct ResidualStep {
  ops::AliasFreeSnake first_activation, second_activation;
  ops::Conv1d first, second;
  int dilation = 1;  // of the first convolution
};

// One stage: upsampling, then the mean of the branches.
struct DecoderStage {
  ops::Conv1d up;                       // polyphase form, see ops/convolution.h
  std::int64_t rate = 0, channels = 0;  // channels after the upsampling
  std::vector<std::vector<ResidualStep>> branches;
};

struct DecoderWeights {
  ops::Conv1d in_proj, conv_pre;
  std::vector<DecoderStage> stages;
  ops::AliasFreeSnake activation_post;
  ops::Conv1d conv_post;
};

// Declares every tensor of the decoder. Convolutions are found under the official pair weight_g and weight_v, which is folded on
// load, or already folded under `weight`, as ComfyUI's files have them.
DecoderWeights declare_decoder(ParamLoader& loader, const WeightPart& part, const AudioVaeConfig& config);

// The weight of the convolution `name`, of `shape` in the file, in either of its two forms. An empty `transform` takes the values as they
// are.
ggml_tensor* declare_normalized_weight(ParamLoader& loader, const WeightPart& part, const std::string& name,
                                       const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& stored,
                                       ParamLoader::Transform transform = {});

// Weight normalisation, w = g·v/|v| with the norm over everything but the first dimension: g [rows], v [rows, ...] (spec/vae.md §2.2).
std::vector<float> fold_weight_norm(std::span<const float> g, std::span<const float> v);

}  // namespace tritium::audio_vae
