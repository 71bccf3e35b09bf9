// Configuration of the video VAE, from its two official JSON documents. Source: spec/vae.md §1.1 and appendix B.
#pragma once

#include "model/video_vae/tiling.h"

#include <tritium/result.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace tritium::video_vae {

// Fixed by the model, in no configuration file.
inline constexpr int kNormGroups = 32;  // GroupNorm of the encoder
inline constexpr float kGroupNormEps = 1e-6f;
inline constexpr float kTransformerNormEps = 1e-5f;  // every norm of the decoder
inline constexpr int kRegisterTokens = 4;            // learned rows behind the tokens, followed by one row of zeros
inline constexpr int kSuffixRows = kRegisterTokens + 1;
inline constexpr int kFeedForwardFactor = 4;  // inner width of the feed-forward layer / hidden
inline constexpr int kPixelChannels = 3;
inline constexpr std::array<float, kPixelChannels> kPixelMean{0.485f, 0.456f, 0.406f};  // of pixels in [0,1], spec/vae.md §1.2
inline constexpr std::array<float, kPixelChannels> kPixelStd{0.229f, 0.224f, 0.225f};

// How a video is decoded. `draft` decodes every latent once: tiles and clips stand side by side, where `full` lets them overlap and fades
// one into the next, which is half of its work at the sizes of the released model; the price is seams. (Leaving out blocks of the network
// instead saves less and costs more: docs/accelerations.md.)
enum class Decoding { full, draft };

struct VideoVaeConfig {
  // Encoder: level i has channels * channel_factors[i] channels and strides space_down[i], time_down[i].
  int channels = 0;
  std::vector<int> channel_factors, space_down, time_down;
  int residual_blocks = 0;  // per level
  // Latents: `z_channels` inside the networks, `latent_channels` outside of quant_conv and post_quant_conv.
  int z_channels = 0, latent_channels = 0;
  std::vector<float> latents_mean, latents_std;  // [latent_channels]
  // Decoder.
  int heads = 0, head_dim = 0, layers = 0;
  double rope_theta = 0, rope_dim_ratio = 0;
  // Clips and tiles, in frames, tokens and pixels.
  int clip_length = 0, token_drop = 0;
  int tile_size = 0, tile_overlap_min = 0;

  [[nodiscard]] int hidden() const { return heads * head_dim; }
  [[nodiscard]] int rotary_pairs() const;    // per head: the first 2*rotary_pairs() dimensions rotate
  [[nodiscard]] int spatial_ratio() const;   // pixels per latent position, each way
  [[nodiscard]] int temporal_ratio() const;  // frames per token
  [[nodiscard]] int patch_features() const { return kPixelChannels * temporal_ratio() * spatial_ratio() * spatial_ratio(); }
  [[nodiscard]] TemporalGeometry temporal() const { return {clip_length, token_drop, temporal_ratio()}; }
  [[nodiscard]] AxisTiles tiles(int latent_length, Decoding decoding = Decoding::full) const {
    return tile_axis(latent_length * spatial_ratio(), tile_size, decoding == Decoding::full ? tile_overlap_min : 0, spatial_ratio());
  }

  // `config_json` is video_vae/config.json, `source_json` is video_vae/source/config.json. Error (model, field = the key) names the
  // file, the value and what is allowed; variants of the architecture that this engine does not implement are refused.
  static Result<VideoVaeConfig> parse(std::string_view config_json, std::string_view source_json);
};

}  // namespace tritium::video_vae
