// Stereo float sound to AAC packets. Private to src/media.
#pragma once

#include "media/video_encoder.h"

#include <vector>

namespace tritium {

// AAC LC, stereo, with libavcodec's own encoder. The first packet starts before time 0 by the encoder's delay (1024 samples);
// the muxer turns that into an edit list, so that players skip it.
class AudioEncoder {
 public:
  // Sample rates that AAC knows (8000..96000). Error: failure.
  static Result<AudioEncoder> open(int sample_rate, int bits_per_second);

  [[nodiscard]] const AVCodecContext& context() const { return *context_; }
  [[nodiscard]] std::int64_t samples() const { return next_ + static_cast<std::int64_t>(left_.size()); }  // given so far, per channel

  // Both channels have the same number of samples. Whole AAC frames are encoded at once, the rest waits for more or for finish().
  Result<void> encode(std::span<const float> left, std::span<const float> right, const PacketSink& sink);
  Result<void> finish(const PacketSink& sink);

 private:
  AudioEncoder() = default;
  Result<void> send(std::size_t first, std::size_t count, const PacketSink& sink);

  av::Owned<AVCodecContext> context_;
  av::Owned<AVFrame> block_;
  av::Owned<AVPacket> packet_;
  std::vector<float> left_, right_;  // given but not yet encoded, less than one AAC frame between calls
  std::int64_t next_ = 0;            // samples sent
};

}  // namespace tritium
