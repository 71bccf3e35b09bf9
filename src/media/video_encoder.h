// RGB pictures to H.264 packets. Private to src/media.
#pragma once

#include "media/av_support.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace tritium {

// Receives each packet as the encoder gives it out, in the encoder's time base; may move its content away.
using PacketSink = std::function<Result<void>(AVPacket&)>;

struct VideoEncoding {
  int width = 0, height = 0;      // even
  int fps_num = 24, fps_den = 1;  // constant
  int crf = 16;                   // 1..51
  std::string preset = "medium";  // x264's names
};

// H.264 High, 4:2:0, 8 bit, limited range, BT.709 matrix, primaries and transfer, all of it tagged. The same pictures give the
// same bytes on every machine with the same libav and x264: thread count and arithmetic do not follow the machine.
class VideoEncoder {
 public:
  // Error usage for sizes, CRF and preset out of range; failure when libx264 is missing.
  static Result<VideoEncoder> open(const VideoEncoding& encoding);

  [[nodiscard]] const AVCodecContext& context() const { return *context_; }

  // rgb: [height, width, 3].
  Result<void> encode(std::span<const std::uint8_t> rgb, const PacketSink& sink);
  Result<void> finish(const PacketSink& sink);

 private:
  VideoEncoder() = default;
  Result<void> send(const AVFrame* frame, const PacketSink& sink);

  av::Owned<AVCodecContext> context_;
  av::Owned<SwsContext> to_yuv_;
  std::vector<std::uint8_t> padded_;  // the converter reads a little beyond the last pixel
  av::Owned<AVFrame> picture_;
  av::Owned<AVPacket> packet_;
  std::int64_t next_ = 0;  // frames sent
};

// Gives every packet the encoder has ready to the sink. Ends normally at "needs more input" and at the end of the stream.
Result<void> drain_encoder(AVCodecContext& context, AVPacket& packet, const PacketSink& sink);

}  // namespace tritium
