// Latents and the rows the denoiser sees. Source: spec/dit.md §4.1.
//   video latent [channels, frames, height, width]  <->  rows [frames*(height/2)*(width/2), channels*4]
//     row order: frame, then patch row, then patch column; feature order: channel, dy, dx
//   audio latent [2, dim, length]                   <->  rows [2*length, dim]
//     row order: all of channel 0, then all of channel 1
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tritium {

inline constexpr int kPatch = 2;  // a video row covers 2x2 latent cells
inline constexpr int kPixelsPerLatent = 16;
inline constexpr int kAudioChannels = 2;  // stereo

struct VideoLatentShape {
  int channels = 24;
  int frames = 0;  // T
  int height = 0;  // in latent cells of 16 pixels
  int width = 0;

  [[nodiscard]] std::int64_t elements() const { return std::int64_t{channels} * frames * height * width; }
  [[nodiscard]] int rows_per_frame() const { return (height / kPatch) * (width / kPatch); }
  [[nodiscard]] std::int64_t rows() const { return std::int64_t{frames} * rows_per_frame(); }
  [[nodiscard]] int row_width() const { return channels * kPatch * kPatch; }
  bool operator==(const VideoLatentShape&) const = default;
};

struct AudioLatentShape {
  int dim = 32;
  int length = 0;  // A, per channel

  [[nodiscard]] std::int64_t elements() const { return std::int64_t{kAudioChannels} * dim * length; }
  [[nodiscard]] std::int64_t rows() const { return std::int64_t{kAudioChannels} * length; }
  bool operator==(const AudioLatentShape&) const = default;
};

// Error (failure, field "latents"): no channel, a negative frame count, or a side that is odd or outside 2..16384.
Result<void> check_shape(const VideoLatentShape& shape);

// Errors of all four (code failure, field "latents"): the shape is impossible or the number of values does not fit it.
Result<std::vector<float>> patchify_video(const VideoLatentShape& shape, std::span<const float> latent);
Result<std::vector<float>> unpatchify_video(const VideoLatentShape& shape, std::span<const float> rows);
Result<std::vector<float>> patchify_audio(const AudioLatentShape& shape, std::span<const float> latent);
Result<std::vector<float>> unpatchify_audio(const AudioLatentShape& shape, std::span<const float> rows);

}  // namespace tritium
