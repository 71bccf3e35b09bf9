// Weights of the audio encoder on a device. Names: spec/vae.md §2.3, §2.4, §2.7.
#pragma once

#include "device/params.h"
#include "model/audio_vae/config.h"
#include "ops/convolution.h"
#include "ops/linear.h"
#include "ops/pointwise_snake.h"

#include <array>

namespace tritium::audio_vae {

inline constexpr std::array<int, 3> kUnitDilations{1, 3, 9};  // of the residual units of one stage

// x + second(snake(first(snake(x)))).
struct EncoderUnit {
  ops::PointwiseSnake first_activation, second_activation;
  ops::Conv1d first, second;
  int dilation = 1;  // of the first convolution
};

struct EncoderStage {
  std::vector<EncoderUnit> units;
  ops::PointwiseSnake activation;
  ops::Conv1d down;  // see ops/strided_conv1d.h
  std::int64_t rate = 0;
};

struct LayerNorm {
  ggml_tensor *weight = nullptr, *bias = nullptr;
};

// From latent_dim features to latent_channels.
struct AttentionProjection {
  LayerNorm norm1, norm2, norm3;
  ops::Linear qkv;        // rows q, k, v of latent_dim each
  ops::Linear pool;       // the mean over the heads and over groups of their features, as a matrix [latent_channels, latent_dim]
  ops::Linear attention;  // behind the pooling
  ops::Linear proj;       // beside the attention
  LayerNorm mlp_norm;
  ops::Linear w0, w1, w2;
};

struct EncoderWeights {
  ops::Conv1d conv_in;
  std::vector<EncoderStage> stages;
  ops::PointwiseSnake activation_out;
  ops::Conv1d conv_out;
  AttentionProjection pre_block;
  ops::Linear mean_proj;
};

// Declares every tensor of the encoder, for both namings of convolutions, see declare_decoder.
EncoderWeights declare_encoder(ParamLoader& loader, const WeightPart& part, const AudioVaeConfig& config);

// The matrix [out, heads · head_dim], row-major, that averages over the heads and then pools head_dim features to `out`: output i is the
// mean of the features from floor(i·head_dim/out) to ceil((i+1)·head_dim/out), exclusive.
std::vector<float> pooling_matrix(int heads, int head_dim, int out);

}  // namespace tritium::audio_vae
