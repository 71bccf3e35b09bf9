// The video VAE's encoder: pictures and videos to latents, clip by clip and tile by tile. Source: spec/vae.md §1.3-§1.7.
#pragma once

#include "base/picture.h"
#include "model/video_vae/compose.h"
#include "model/video_vae/encode_schedule.h"
#include "model/video_vae/encoder_network.h"
#include "model/video_vae/posterior.h"

namespace tritium::video_vae {

// The pictures of a video, all of one size, asked for one after the other.
struct FrameSource {
  int frames = 0, height = 0, width = 0;
  // Fills rgb [height, width, 3]; called for increasing numbers, for each at most once.
  std::function<Result<void>(int number, std::span<std::uint8_t> rgb)> read;
};

// Frames that are all in memory: rgb [frames, height, width, 3], which must outlive the source.
FrameSource frames_in_memory(std::span<const std::uint8_t> rgb, int frames, int height, int width);

// Called after every tile.
using EncodeProgress = std::function<void(int done, int total)>;

// Not thread safe, as the device it runs on. Observers of the device see the intermediates of every step of every tile as
// "video_vae.encoder.clip<k>.tile<i>_<j>.step<n>.<name>"; step n gives token n of the clip.
//
// Pictures are cropped to multiples of spatial_ratio() pixels: the right and bottom rests are left out. All entry points give errors:
// usage for a picture below two latent positions each way and for too few frames (field and least value are named), failure for a picture
// with the wrong number of values, rejected when a tile comes out not finite (clip and tile are named), interrupted, does_not_fit.
class VideoEncoder {
 public:
  // Checks names and shapes without loading; the result is the number of bytes load() will allocate on the device.
  static Result<std::uint64_t> check(const WeightPart& part, const VideoVaeConfig& config);
  // `device` must outlive the encoder. The weights are kept in float32, in which every official program encodes.
  static Result<VideoEncoder> load(Device& device, const WeightPart& part, const VideoVaeConfig& config,
                                   const CancelToken* cancel = nullptr, const LoadProgress& progress = {});

  [[nodiscard]] const VideoVaeConfig& config() const { return config_; }

  // Device memory for activations while a picture or video of this size is encoded, an estimate.
  static std::uint64_t working_bytes(const VideoVaeConfig& config, int height, int width, bool video);

  // A picture as one token: normalized latents [latent_channels, 1, h, w].
  Result<TokenGrid> encode_image(const PictureView& picture, Posterior posterior, const CancelToken* cancel = nullptr,
                                 const EncodeProgress& progress = {}) const;
  // A video: normalized latents [latent_channels, tokens, h, w]. Holds the frames of one clip at a time.
  Result<TokenGrid> encode_video(const FrameSource& source, FrameRule rule, Posterior posterior, const CancelToken* cancel = nullptr,
                                 const EncodeProgress& progress = {}) const;

  // What the latents are chosen from: [2 * latent_channels, tokens, h, w], means and then logarithms of variances.
  Result<TokenGrid> image_moments(const PictureView& picture, const CancelToken* cancel = nullptr,
                                  const EncodeProgress& progress = {}) const;
  Result<TokenGrid> video_moments(const FrameSource& source, FrameRule rule, const CancelToken* cancel = nullptr,
                                  const EncodeProgress& progress = {}) const;

 private:
  // The frames of one clip, uncropped; an empty one is black.
  struct Clip {
    int number = 0, tokens = 0;
    int height = 0, width = 0;  // of the frames, pixels
    std::vector<std::span<const std::uint8_t>> frames;
  };
  struct Tile {
    int row = 0, column = 0;  // in the order of tiles
    int top = 0, left = 0, height = 0, width = 0;
  };

  VideoEncoder(Device& device, VideoVaeConfig config, EncoderWeights weights, TensorPool pool);
  [[nodiscard]] Result<void> check_size(int height, int width) const;
  [[nodiscard]] AxisTiles tiles(int pixels) const { return config_.tiles(pixels / config_.spatial_ratio()); }
  // [2 * latent_channels, tokens, h, w]
  Result<std::vector<float>> encode_clip(const Clip& clip, FrameMemory& memory, const CancelToken* cancel,
                                         const std::function<void()>& tile_done) const;
  Result<std::vector<float>> encode_tile(const Clip& clip, const Tile& tile, FrameMemory& memory, const CancelToken* cancel) const;
  [[nodiscard]] Result<TokenGrid> latents_of(const TokenGrid& moments, Posterior posterior, int drawn_tokens) const;

  Device* device_;
  VideoVaeConfig config_;
  EncoderWeights weights_;
  TensorPool pool_;
};

}  // namespace tritium::video_vae
