// Packets of one track to decoded frames. Private to src/media.
#pragma once

#include "base/cancel.h"
#include "media/av_input.h"

#include <functional>
#include <limits>
#include <vector>

namespace tritium {

// Whether a sink wants to see more frames of its track.
enum class Want { more, enough };
using DecodedSink = std::function<Result<Want>(const AVFrame&)>;

// Frames come in order of presentation. Everything that libav reports as damaged or cut off is an error that names the file; nothing is
// guessed or concealed.
class TrackDecoder {
 public:
  // `path` stands in messages. threads: 0 takes as many as there are processors.
  static Result<TrackDecoder> open(const std::filesystem::path& path, AVStream& stream, DecodedSink sink, int threads = 1);

  [[nodiscard]] int index() const { return stream_->index; }
  [[nodiscard]] bool done() const { return want_ == Want::enough; }
  // When the last frame so far ends, in seconds on the clock of the file; negative infinity when the file does not say.
  [[nodiscard]] double end_seconds() const { return end_seconds_; }
  // nullptr: no more packets, give out what is left. Does nothing once the sink has enough.
  Result<void> decode(const AVPacket* packet);

 private:
  TrackDecoder() = default;
  std::filesystem::path path_;
  AVStream* stream_ = nullptr;
  DecodedSink sink_;
  Want want_ = Want::more;
  double end_seconds_ = -std::numeric_limits<double>::infinity();
  av::Owned<AVCodecContext> context_;
  av::Owned<AVFrame> frame_;
};

// How long a frame is shown or heard, in ticks of its track; 0 when it does not say.
std::int64_t frame_duration(const AVFrame& frame);

// Reads the input to its end, or until every track's sink has enough; the other tracks of the file are skipped. A file that ends well
// before its header says it should is refused, if these tracks are all it has.
Result<void> decode_tracks(const std::filesystem::path& path, AVFormatContext& input, std::vector<TrackDecoder>& tracks,
                           const CancelToken* cancel);

// Samples per channel that an MP4 track says it holds: its last AAC frame is longer than the sound in it. -1 for other containers,
// which only estimate it.
std::int64_t stored_samples(const AVFormatContext& input, const AVStream& stream, int sample_rate);

}  // namespace tritium
