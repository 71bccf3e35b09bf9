// The video VAE's decoder: latents to frames, clip by clip and tile by tile. Source: spec/vae.md §1.7-§1.9.
#pragma once

#include "model/video_vae/compose.h"
#include "model/video_vae/transformer.h"

namespace tritium::video_vae {

// Latents as the diffusion transformer gives them (normalized), [channels, tokens, height, width] row-major; height and width in
// latent units.
struct LatentVideo {
  std::span<const float> values;
  int tokens = 0, height = 0, width = 0;
};

// Called after every tile.
using TileProgress = std::function<void(int done, int total)>;

// Not thread safe, as the device it runs on. Observers of the device see the intermediates of every tile as
// "video_vae.clip<k>.tile<i>_<j>.<name>".
class VideoDecoder {
 public:
  // Checks names and shapes without loading; the result is the number of bytes load() will allocate on the device.
  static Result<std::uint64_t> check(const WeightPart& part, const VideoVaeConfig& config, MatrixPolicy policy);
  // `device` must outlive the decoder.
  static Result<VideoDecoder> load(Device& device, const WeightPart& part, const VideoVaeConfig& config, MatrixPolicy policy,
                                   const CancelToken* cancel = nullptr, const LoadProgress& progress = {});

  [[nodiscard]] const VideoVaeConfig& config() const { return config_; }

  // Host memory that decode() needs for frames and tiles, without the frames the sink keeps.
  static std::uint64_t frame_bytes(const VideoVaeConfig& config, int latent_height, int latent_width);

  // Decodes a video of plan_decode(tokens).output_frames frames; the sink gets each frame as soon as it is final, [3, height, width]
  // in normalized space (see pixels.h). Any number of tokens from 1 is accepted; one token gives a single frame by way of a padded
  // clip. Errors: code failure for latents that are not finite or not of the stated size, rejected for a tile that comes out not
  // finite (names clip and tile).
  Result<void> decode(const LatentVideo& latents, const FrameSink& sink, const CancelToken* cancel = nullptr,
                      const TileProgress& progress = {}, Decoding decoding = Decoding::full);

  // Decodes one token without the temporal logic: temporal_ratio() frames [frames, 3, height, width], of which the last is the image.
  Result<std::vector<float>> decode_image(const LatentVideo& latents, const CancelToken* cancel = nullptr,
                                          const TileProgress& progress = {});

 private:
  // A stretch of tokens that is decoded at once, and the frames wanted from it.
  struct Clip {
    int number = 0;
    int first_token = 0, tokens = 0;  // tokens behind the last one repeat it
    std::vector<int> frames;          // relative to the first token, increasing
    AxisTiles rows, columns;
  };

  VideoDecoder(Device& device, VideoVaeConfig config, DecoderWeights weights, TensorPool pool);
  [[nodiscard]] Result<void> check_latents(const LatentVideo& latents) const;
  [[nodiscard]] std::vector<float> tile_latents(const LatentVideo& latents, const Clip& clip, const TileShape& shape, int top,
                                                int left) const;
  // [frames, 3, height, width]
  Result<std::vector<float>> decode_clip(const LatentVideo& latents, const Clip& clip, const CancelToken* cancel,
                                         const std::function<void()>& tile_done);
  Result<std::vector<float>> decode_tile(const LatentVideo& latents, const Clip& clip, int i, int j, const CancelToken* cancel);

  Device* device_;
  VideoVaeConfig config_;
  DecoderWeights weights_;
  TensorPool pool_;
};

}  // namespace tritium::video_vae
