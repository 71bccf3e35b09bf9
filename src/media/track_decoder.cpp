#include "media/track_decoder.h"

#include "base/system.h"
#include "base/try.h"
#include "media/input_file.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

extern "C" {
#include <libavutil/common.h>
}

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kMaxPixels = 64 << 20;  // of one picture, about twice an 8K frame: bounds what one hostile frame can take
constexpr int kMaxThreads = 8;                 // each holds pictures of its own

// Some containers that end in the middle do not even know. 0.5 s or 5 % are for headers that are a little off.
Result<void> check_length(const fs::path& path, AVFormatContext& input, const std::vector<TrackDecoder>& tracks) {
  if (av::is_cut_off(input)) return unreadable(path, "the file ends early");
  if (input.nb_streams != tracks.size() || input.duration == AV_NOPTS_VALUE || input.start_time == AV_NOPTS_VALUE) return {};
  if (input.duration_estimation_method != AVFMT_DURATION_FROM_STREAM) return {};
  double end = -std::numeric_limits<double>::infinity();
  for (const TrackDecoder& track : tracks) {
    if (track.done()) return {};
    end = std::max(end, track.end_seconds());
  }
  const double stated = static_cast<double>(input.duration) / AV_TIME_BASE;
  // Containers count their length from 0 or from the first frame.
  const double missing = stated - std::max(end, end - static_cast<double>(input.start_time) / AV_TIME_BASE);
  if (!std::isfinite(missing) || missing <= std::max(0.5, 0.05 * stated)) return {};
  return unreadable(path, fmt::format("the file ends early: {:.2f} of its {:.2f} s are missing", missing, stated));
}

// Decoding several frames at a time: other decoders of FFmpeg 5.1 can report a frame together with an error, which then ends the process
// by an assertion of libavcodec. They decode the slices of one frame at a time.
bool decodes_frames_in_parallel(AVCodecID codec) {
  return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC || codec == AV_CODEC_ID_VP9;
}

}  // namespace

std::int64_t frame_duration(const AVFrame& frame) {
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
  const std::int64_t duration = frame.duration;
#else
  const std::int64_t duration = frame.pkt_duration;
#endif
  return std::max<std::int64_t>(duration, 0);
}

Result<TrackDecoder> TrackDecoder::open(const fs::path& path, AVStream& stream, DecodedSink sink, int threads) {
  const AVCodecParameters& parameters = *stream.codecpar;
  const AVCodec* codec = avcodec_find_decoder(parameters.codec_id);
  if (codec == nullptr) return unreadable(path, fmt::format("no decoder for '{}' is installed", avcodec_get_name(parameters.codec_id)));
  if (static_cast<std::int64_t>(parameters.width) * parameters.height > kMaxPixels)
    return unreadable(path, fmt::format("its pictures have {}x{} pixels, at most {} million are taken", parameters.width, parameters.height,
                                        kMaxPixels / 1000000));
  TrackDecoder out;
  out.path_ = path;
  out.stream_ = &stream;
  out.sink_ = std::move(sink);
  out.context_.reset(avcodec_alloc_context3(codec));
  out.frame_.reset(av_frame_alloc());
  if (!out.context_ || !out.frame_) return av::file_error("read", path, AVERROR(ENOMEM));
  int code = avcodec_parameters_to_context(out.context_.get(), &parameters);
  out.context_->pkt_timebase = stream.time_base;
  out.context_->err_recognition = AV_EF_EXPLODE | AV_EF_CRCCHECK;  // an error instead of a guessed picture
  out.context_->max_pixels = kMaxPixels;
  out.context_->flags |= AV_CODEC_FLAG_BITEXACT;
  out.context_->thread_type = FF_THREAD_SLICE | (decodes_frames_in_parallel(parameters.codec_id) ? FF_THREAD_FRAME : 0);
  out.context_->thread_count = threads > 0 ? threads : std::min(usable_cpus(), kMaxThreads);
  if (code >= 0) code = avcodec_open2(out.context_.get(), codec, nullptr);
  if (code < 0) return av::file_error("decode", path, code);
  return out;
}

Result<void> TrackDecoder::decode(const AVPacket* packet) {
  if (done()) return {};
  if (packet != nullptr && (packet->flags & AV_PKT_FLAG_CORRUPT) != 0) return unreadable(path_, "the file ends early or is damaged");
  (void)av::take_complaint();
  int code = avcodec_send_packet(context_.get(), packet);
  if (code < 0 && code != AVERROR_EOF) return av::file_error("decode", path_, code);
  while ((code = avcodec_receive_frame(context_.get(), frame_.get())) >= 0) {
    if (frame_->decode_error_flags != 0 || (frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0)
      return unreadable(path_, fmt::format("its {} track is damaged", avcodec_get_name(context_->codec_id)));
    if (const std::int64_t start = frame_->best_effort_timestamp; start != AV_NOPTS_VALUE)
      end_seconds_ = std::max(end_seconds_, static_cast<double>(av_sat_add64(start, frame_duration(*frame_))) * av_q2d(stream_->time_base));
    TRITIUM_TRY_ASSIGN(want_, sink_(*frame_));
    if (done()) return {};
  }
  // This decoder conceals damage and only talks about it.
  if (context_->codec_id == AV_CODEC_ID_GIF)
    if (const std::string complaint = av::take_complaint(); !complaint.empty())
      return unreadable(path_, "its gif track is damaged: " + complaint);
  return code == AVERROR(EAGAIN) || code == AVERROR_EOF ? Result<void>() : Result<void>(av::file_error("decode", path_, code));
}

Result<void> decode_tracks(const fs::path& path, AVFormatContext& input, std::vector<TrackDecoder>& tracks, const CancelToken* cancel) {
  for (unsigned i = 0; i < input.nb_streams; ++i) input.streams[i]->discard = AVDISCARD_ALL;
  for (const TrackDecoder& track : tracks) input.streams[track.index()]->discard = AVDISCARD_DEFAULT;
  const av::Owned<AVPacket> packet(av_packet_alloc());
  if (!packet) return av::file_error("read", path, AVERROR(ENOMEM));
  int code = 0;
  const auto next = [&] {
    (void)av::take_complaint();  // only what the container's reader says counts below
    return code = av_read_frame(&input, packet.get());
  };
  while (next() >= 0) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("reading media"));
    for (TrackDecoder& track : tracks)
      if (track.index() == packet->stream_index) TRITIUM_TRY(track.decode(packet.get()));
    av_packet_unref(packet.get());
    if (std::all_of(tracks.begin(), tracks.end(), [](const TrackDecoder& track) { return track.done(); })) return {};
  }
  if (cancel != nullptr) TRITIUM_TRY(cancel->check("reading media"));
  if (code != AVERROR_EOF) return av::file_error("read", path, code);
  // Some containers that end in the middle only talk about it.
  if (const std::string complaint = av::take_complaint(); !complaint.empty())
    return unreadable(path, "the file ends early or is damaged: " + complaint);
  for (TrackDecoder& track : tracks) TRITIUM_TRY(track.decode(nullptr));
  return check_length(path, input, tracks);
}

std::int64_t stored_samples(const AVFormatContext& input, const AVStream& stream, int sample_rate) {
  if (!av::is_mov(input) || stream.duration == AV_NOPTS_VALUE || stream.duration <= 0) return -1;
  return av_rescale_q_rnd(stream.duration, stream.time_base, {1, sample_rate}, AV_ROUND_NEAR_INF);
}

}  // namespace tritium
