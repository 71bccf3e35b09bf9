// The encoder's network for one tile of one clip: weights and graph. Source: spec/vae.md §1.3, names §1.10.
//
// Nothing in the network looks ahead in time and every norm stays within a frame, so a clip is run in steps that give one token each;
// only the frames that the next step looks back at are kept in between.
#pragma once

#include "device/params.h"
#include "model/video_vae/config.h"
#include "ops/conv3d.h"
#include "ops/linear.h"

#include <optional>

namespace tritium::video_vae {

struct NormWeights {
  ggml_tensor *weight, *bias;  // [channels]
};

struct ResidualBlock {
  NormWeights norm1, norm2;
  ops::Conv3d conv1, conv2;
  std::optional<ops::Linear> shortcut;  // where the number of channels changes
};

struct EncoderLevel {
  std::vector<ResidualBlock> blocks;
  std::optional<ops::Conv3d> downsample;
  int time_stride = 1;  // of the downsampling
};

struct EncoderWeights {
  ops::Conv3d conv_in;
  std::vector<EncoderLevel> levels;
  NormWeights norm_out;
  ops::Conv3d conv_out;
  ops::Linear quant_conv;
};

// Error (model): a combination of strides or a tile size that the encoder does not define.
Result<void> check_encoder_config(const VideoVaeConfig& config);

// Declares every tensor of the encoder and quant_conv, all in float32. Precondition: check_encoder_config.
EncoderWeights declare_encoder(ParamLoader& loader, const VideoVaeConfig& config);

// The last two input frames of every convolution, from one step of a tile to the next.
class FrameMemory {
 public:
  explicit FrameMemory(const VideoVaeConfig& config);

  // Before the graph of a step is built. A tile with one step needs no memory.
  void begin(bool first_step, bool last_step);
  // Runs the next convolution of the step. The strides of later steps continue those of the first, whose one frame is frame 0.
  ggml_tensor* convolve(Graph& graph, const ops::Conv3d& layer, ggml_tensor* x, int space_stride = 1, int time_stride = 1);
  // After the graph is built, before it runs.
  Result<void> allocate(Device& device);

 private:
  void keep(Graph& graph, ggml_tensor* x, ggml_tensor* tail) const;

  TensorPool pool_;
  std::vector<ggml_tensor*> tails_;  // [channels, width, height, 2] in the order of the convolutions
  std::size_t next_ = 0;
  bool first_step_ = true, last_step_ = true, allocated_ = false;
};

// Size of the pixels of one step.
struct StepShape {
  int frames = 0, height = 0, width = 0;
};

// Builds the graph of one step: `pixels` [frames, height, width, 3], ImageNet-normalized. The result, a graph output, holds the moments
// [2 * latent_channels, width/16, height/16, 1].
ggml_tensor* build_encoder_step(Graph& graph, const EncoderWeights& weights, FrameMemory& memory, const StepShape& shape,
                                std::span<const float> pixels);
// Upper bound of the graph's nodes, for Graph.
std::size_t encoder_graph_nodes(const VideoVaeConfig& config, const StepShape& shape);

// Memory of the steps' activations and of the FrameMemory while a tile of this size is encoded, in bytes: an estimate.
std::uint64_t encoder_working_bytes(const VideoVaeConfig& config, int height, int width, bool video);

}  // namespace tritium::video_vae
