#include "model/video_vae/encoder_network.h"

#include "base/try.h"
#include "ops/group_norm.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::video_vae {
namespace {

constexpr int kSpaceStride = 2;  // of every downsampling

bool downsamples(const VideoVaeConfig& config, std::size_t level) { return config.space_down[level] * config.time_down[level] > 1; }

std::size_t convolutions(const VideoVaeConfig& config) {
  return config.channel_factors.size() * (2 * static_cast<std::size_t>(config.residual_blocks) + 1) + 2;
}

ops::Conv3d declare_convolution(ParamLoader& loader, const std::string& name, std::int64_t in, std::int64_t out) {
  const auto transform = [in, out](const std::vector<float>& w) { return ops::conv3d_weights(w, in, out); };
  return {loader.transformed(name + ".weight", {out, in, 3, 3, 3}, {ops::kConv3dTaps, in, out}, transform),
          loader.tensor(name + ".bias", {out})};
}

ops::Linear declare_pointwise(ParamLoader& loader, const std::string& name, std::int64_t in, std::int64_t out) {
  return {loader.float_matrix(name + ".weight", out, in, {out, in, 1, 1, 1}), loader.tensor(name + ".bias", {out})};
}

NormWeights declare_norm(ParamLoader& loader, const std::string& name, std::int64_t channels) {
  return {loader.tensor(name + ".weight", {channels}), loader.tensor(name + ".bias", {channels})};
}

ResidualBlock declare_block(ParamLoader& loader, const std::string& name, std::int64_t in, std::int64_t out) {
  ResidualBlock block{declare_norm(loader, name + ".norm1", in),
                      declare_norm(loader, name + ".norm2", out),
                      declare_convolution(loader, name + ".conv1", in, out),
                      declare_convolution(loader, name + ".conv2", out, out),
                      {}};
  if (in != out) block.shortcut = declare_pointwise(loader, name + ".nin_shortcut", in, out);
  return block;
}

ggml_tensor* normalize(Graph& graph, const NormWeights& norm, ggml_tensor* x, const std::string& name) {
  return graph.name(name, ops::group_norm(graph, x, norm.weight, norm.bias, kNormGroups, kGroupNormEps));
}

ggml_tensor* build_block(Graph& graph, const ResidualBlock& block, FrameMemory& memory, ggml_tensor* x, const std::string& name) {
  ggml_context* context = graph.context();
  ggml_tensor* h = memory.convolve(graph, block.conv1, ggml_silu(context, normalize(graph, block.norm1, x, name + ".norm1")));
  h = memory.convolve(graph, block.conv2, ggml_silu(context, normalize(graph, block.norm2, h, name + ".norm2")));
  if (block.shortcut) x = ops::linear(graph, *block.shortcut, x);
  return graph.name(name, ggml_add(context, h, x));
}

ggml_tensor* frames_of(Graph& graph, ggml_tensor* x, std::int64_t first, std::int64_t count) {
  return ggml_view_4d(graph.context(), x, x->ne[0], x->ne[1], x->ne[2], count, x->nb[1], x->nb[2], x->nb[3],
                      static_cast<std::size_t>(first) * x->nb[3]);
}

}  // namespace

Result<void> check_encoder_config(const VideoVaeConfig& config) {
  const auto fail = [](std::string message, const char* key) { return Error{ErrorCode::model, std::move(message), key, ""}; };
  for (std::size_t level = 0; level < config.space_down.size(); ++level)
    if (downsamples(config, level) && config.space_down[level] != kSpaceStride)
      return fail(fmt::format("level {} downsamples by {} in space and {} in time; the encoder is defined for {} in space only", level,
                              config.space_down[level], config.time_down[level], kSpaceStride),
                  "space_down");
  if (config.tile_size < 2 * config.spatial_ratio())
    return fail(fmt::format("{} is below two latent positions of {} pixels", config.tile_size, config.spatial_ratio()), "vae_tile_size");
  return {};
}

EncoderWeights declare_encoder(ParamLoader& loader, const VideoVaeConfig& config) {
  EncoderWeights out;
  std::int64_t channels = std::int64_t{config.channels} * config.channel_factors.front();
  out.conv_in = declare_convolution(loader, "encoder.conv_in", kPixelChannels, channels);
  for (std::size_t i = 0; i < config.channel_factors.size(); ++i) {
    EncoderLevel& level = out.levels.emplace_back();
    const std::int64_t width = std::int64_t{config.channels} * config.channel_factors[i];
    for (int j = 0; j < config.residual_blocks; ++j) {
      level.blocks.push_back(declare_block(loader, fmt::format("encoder.down.{}.block.{}", i, j), channels, width));
      channels = width;
    }
    level.time_stride = config.time_down[i];
    if (downsamples(config, i))
      level.downsample = declare_convolution(loader, fmt::format("encoder.down.{}.downsample.conv", i), channels, channels);
  }
  const std::int64_t z = 2 * config.z_channels, latent = 2 * config.latent_channels;
  out.norm_out = declare_norm(loader, "encoder.norm_out", channels);
  out.conv_out = declare_convolution(loader, "encoder.conv_out", channels, z);
  out.quant_conv = declare_pointwise(loader, "quant_conv", z, latent);
  return out;
}

FrameMemory::FrameMemory(const VideoVaeConfig& config) : pool_(convolutions(config)) {}

void FrameMemory::begin(bool first_step, bool last_step) {
  first_step_ = first_step;
  last_step_ = last_step;
  next_ = 0;
  if (first_step && allocated_)
    for (ggml_tensor* tail : tails_)
      if (tail->buffer != nullptr) ggml_backend_tensor_memset(tail, 0, 0, ggml_nbytes(tail));
}

ggml_tensor* FrameMemory::convolve(Graph& graph, const ops::Conv3d& layer, ggml_tensor* x, int space_stride, int time_stride) {
  if (first_step_ && last_step_) return ops::conv3d(graph, layer, x, nullptr, {space_stride, time_stride, 0});
  if (next_ == tails_.size()) tails_.push_back(pool_.add("frames before", GGML_TYPE_F32, {x->ne[0], x->ne[1], x->ne[2], ops::kConv3dPast}));
  ggml_tensor* tail = tails_[next_++];
  // Frame 0 of the video is on the stride's grid; later steps begin one frame behind a grid frame.
  ggml_tensor* y =
      ops::conv3d(graph, layer, x, first_step_ ? nullptr : tail, {space_stride, time_stride, first_step_ ? 0 : time_stride - 1});
  if (!last_step_) {
    graph.effect(y);  // reads the tail before it is replaced
    keep(graph, x, tail);
  }
  return y;
}

void FrameMemory::keep(Graph& graph, ggml_tensor* x, ggml_tensor* tail) const {
  ggml_context* context = graph.context();
  const std::int64_t fresh = std::min<std::int64_t>(x->ne[3], ops::kConv3dPast), stays = ops::kConv3dPast - fresh;
  if (stays > 0) graph.effect(ggml_cpy(context, frames_of(graph, tail, fresh, stays), frames_of(graph, tail, 0, stays)));
  graph.effect(ggml_cpy(context, frames_of(graph, x, x->ne[3] - fresh, fresh), frames_of(graph, tail, stays, fresh)));
}

Result<void> FrameMemory::allocate(Device& device) {
  if (allocated_ || tails_.empty()) return {};
  TRITIUM_TRY(pool_.allocate(device, "the frames kept by the video VAE encoder"));
  allocated_ = true;
  return {};
}

ggml_tensor* build_encoder_step(Graph& graph, const EncoderWeights& weights, FrameMemory& memory, const StepShape& shape,
                                std::span<const float> pixels) {
  ggml_tensor* x = graph.name("input_norm", graph.input("input_norm", pixels, {kPixelChannels, shape.width, shape.height, shape.frames}));
  x = graph.name("conv_in", memory.convolve(graph, weights.conv_in, x));
  for (std::size_t i = 0; i < weights.levels.size(); ++i) {
    const EncoderLevel& level = weights.levels[i];
    for (std::size_t j = 0; j < level.blocks.size(); ++j)
      x = build_block(graph, level.blocks[j], memory, x, fmt::format("down{}.block{}", i, j));
    if (level.downsample)
      x = graph.name(fmt::format("down{}.downsample", i), memory.convolve(graph, *level.downsample, x, kSpaceStride, level.time_stride));
  }
  x = ggml_silu(graph.context(), normalize(graph, weights.norm_out, x, "norm_out"));
  x = graph.name("conv_out", memory.convolve(graph, weights.conv_out, x));
  return graph.output("quant_conv", ops::linear(graph, weights.quant_conv, x));
}

std::size_t encoder_graph_nodes(const VideoVaeConfig& config, const StepShape& shape) {
  constexpr std::size_t kOtherNodes = 40;  // per convolution: norms, sums, kept frames
  std::size_t positions = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width), slices = 0;
  for (std::size_t i = 0; i < config.channel_factors.size(); ++i) {
    const auto channels = static_cast<std::size_t>(config.channels * config.channel_factors[i]);
    const std::size_t columns = ops::kConv3dTaps / 3 * channels * positions * static_cast<std::size_t>(shape.frames + ops::kConv3dPast);
    slices +=
        (2 * static_cast<std::size_t>(config.residual_blocks) + 2) * (2 * columns / static_cast<std::size_t>(ops::kMaxConv3dColumns) + 2);
    if (downsamples(config, i)) positions /= static_cast<std::size_t>(kSpaceStride * kSpaceStride);
  }
  return convolutions(config) * (ops::kConv3dNodes + kOtherNodes) + slices * ops::kConv3dSliceNodes;
}

std::uint64_t encoder_working_bytes(const VideoVaeConfig& config, int height, int width, bool video) {
  std::uint64_t frames = video ? static_cast<std::uint64_t>(config.temporal_ratio()) : 1, kept = 0, largest = 0;
  std::uint64_t pixels = static_cast<std::uint64_t>(height) * static_cast<std::uint64_t>(width);
  std::uint64_t before = static_cast<std::uint64_t>(config.channels * config.channel_factors.front());  // channels of the level's input
  for (std::size_t i = 0; i < config.channel_factors.size(); ++i) {
    const auto channels = static_cast<std::uint64_t>(config.channels * config.channel_factors[i]);
    const std::uint64_t blocks = static_cast<std::uint64_t>(config.residual_blocks), reduced = downsamples(config, i) ? 1 : 0;
    kept += static_cast<std::uint64_t>(ops::kConv3dPast) * pixels * (before + (2 * blocks - 1 + reduced) * channels);
    largest =
        std::max(largest, frames * pixels * (std::max(before, channels) + 2 * channels));  // a block's input, hidden values and result
    before = channels;
    if (reduced == 0) continue;
    pixels /= static_cast<std::uint64_t>(kSpaceStride * kSpaceStride);
    frames = std::max<std::uint64_t>(1, frames / static_cast<std::uint64_t>(config.time_down[i]));
  }
  const std::uint64_t input = static_cast<std::uint64_t>(video ? config.temporal_ratio() : 1) * static_cast<std::uint64_t>(height) *
                              static_cast<std::uint64_t>(width) * kPixelChannels;
  constexpr std::uint64_t kSmallTensors = 1 << 20;  // bytes; sums of norms and the like
  return ((video ? kept : 0) + largest + input) * sizeof(float) + kSmallTensors;
}

}  // namespace tritium::video_vae
