// The decoder's network for one tile of one clip: weights and graph. Source: spec/vae.md §1.8, names §1.10.
#pragma once

#include "device/params.h"
#include "model/video_vae/config.h"
#include "ops/linear.h"

namespace tritium::video_vae {

struct DecoderBlock {
  ggml_tensor *norm1, *norm2, *scale1, *scale2;  // [hidden]
  ops::Linear to_qkv;                            // outputs per head: q, k, v of head_dim each
  ops::Linear to_out, w1, w2;
};

struct DecoderWeights {
  ops::Linear post_quant_conv, x_embedder;
  ggml_tensor* suffix;  // [hidden, 5]: the register tokens and a row of zeros
  std::vector<DecoderBlock> blocks;
  ggml_tensor *norm_out_weight, *norm_out_bias;
  ops::Linear proj_out;
};

// Declares every tensor of the decoder. The layers outside of the blocks are kept in float32 whatever the loader's precision.
DecoderWeights declare_decoder(ParamLoader& loader, const VideoVaeConfig& config);

// Size of a tile in latent units. Its rows are ordered t, then y, then x.
struct TileShape {
  int tokens = 0, height = 0, width = 0;
  [[nodiscard]] std::int64_t positions() const { return std::int64_t{height} * width; }  // rows of one token
  [[nodiscard]] std::int64_t rows() const { return tokens * positions(); }
};

// Rotation frequencies of one axis, [rotary_pairs / 3].
std::vector<double> rotary_frequencies(const VideoVaeConfig& config);
// Angles in radians, [rows + 5][rotary_pairs]: coordinates are relative to the tile, suffix rows do not rotate.
std::vector<float> rotary_angles(const VideoVaeConfig& config, const TileShape& shape);

// Builds the graph: `latents` [rows][latent channels], de-normalized. The result, a graph output, is [patch features, rows] for the
// rows of tokens first_token .. end_token - 1.
ggml_tensor* build_tile(Graph& graph, const DecoderWeights& weights, const VideoVaeConfig& config, const TileShape& shape,
                        std::span<const float> latents, int first_token, int end_token);
// Upper bound of the graph's nodes, for Graph.
std::size_t tile_graph_nodes(const VideoVaeConfig& config, const TileShape& shape);

// Arranges the result of build_tile as frames [frames, 3, height, width] in pixels. `frames` are frame numbers within the clip;
// precondition: their tokens are among those computed, the first of which is `first_token`.
std::vector<float> unpatchify(const VideoVaeConfig& config, const TileShape& shape, std::span<const float> rows, int first_token,
                              std::span<const int> frames);

}  // namespace tritium::video_vae
