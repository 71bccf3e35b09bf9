#include "media/video_input.h"

#include "base/try.h"
#include "media/frame_clock.h"
#include "media/input_file.h"
#include "media/orientation.h"
#include "media/rgb_converter.h"
#include "media/sound_collector.h"

#include <fmt/format.h>
#include <algorithm>
#include <climits>
#include <cmath>
#include <new>

extern "C" {
#include <libavutil/common.h>
}

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr double kSoundLead = 30;  // seconds that the sound may begin before the pictures

std::int64_t whole_frames(double seconds) { return std::llround(seconds * kModelFps); }

// The display matrix of the track, nullptr without one.
const std::int32_t* track_matrix(const AVStream& stream) {
  constexpr std::size_t kBytes = 9 * sizeof(std::int32_t);
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
  const AVPacketSideData* data =
      av_packet_side_data_get(stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
  return data != nullptr && data->size >= kBytes ? reinterpret_cast<const std::int32_t*>(data->data) : nullptr;
#else
  std::size_t bytes = 0;
  const std::uint8_t* data = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &bytes);
  return data != nullptr && bytes >= kBytes ? reinterpret_cast<const std::int32_t*>(data) : nullptr;
#endif
}

const std::int32_t* frame_matrix(const AVFrame& frame) {
  const AVFrameSideData* data = av_frame_get_side_data(&frame, AV_FRAME_DATA_DISPLAYMATRIX);
  return data != nullptr && data->size >= 9 * sizeof(std::int32_t) ? reinterpret_cast<const std::int32_t*>(data->data) : nullptr;
}

Fraction nominal_rate(const AVStream& stream) {
  const AVRational rate = stream.r_frame_rate.num > 0 && stream.r_frame_rate.den > 0 ? stream.r_frame_rate : stream.avg_frame_rate;
  return {rate.num, rate.den};
}

Error too_long(const fs::path& path, double seconds, const VideoOptions& options) {
  return Error{ErrorCode::usage,
               fmt::format("'{}' lasts {:.2f} s or more, at most {:g} s are taken", path.string(), seconds, options.max_seconds), "",
               "cut it to a shorter video"};
}

// Decoded frames in, pictures with the slots they fill out. A frame is kept until the next one tells how long it is shown.
class FrameHolder {
 public:
  FrameHolder(const fs::path& path, AVFormatContext& input, AVStream& stream, const VideoOptions& options, const VideoSink& sink)
      : path_(path),
        input_(input),
        stream_(stream),
        options_(options),
        sink_(sink),
        to_rgb_(path),
        clock_({stream.time_base.num, stream.time_base.den}, nominal_rate(stream)),
        max_frames_(whole_frames(options.max_seconds)) {}

  Result<Want> add(const AVFrame& frame);
  Result<void> finish();

  [[nodiscard]] bool stopped() const { return stopped_; }
  // Precondition: there was a frame.
  // When the first picture is shown. Containers without presentation times (AVI) give none: their guesses lag behind by the frames that
  // the decoder reorders.
  [[nodiscard]] std::int64_t presentation_start() const { return presentation_start_; }
  [[nodiscard]] const VideoInput& result() const { return result_; }

 private:
  Result<void> start(const AVFrame& frame);
  Result<void> show_until(std::int64_t slot);

  const fs::path& path_;
  AVFormatContext& input_;
  AVStream& stream_;
  const VideoOptions& options_;
  const VideoSink& sink_;
  RgbConverter to_rgb_;
  FrameClock clock_;
  std::int64_t max_frames_;
  Orientation orientation_;
  av::Owned<AVFrame> pending_;
  std::int64_t first_timestamp_ = 0, presentation_start_ = 0;
  std::int64_t timestamp_ = 0, duration_ = 0;  // of the pending frame, from the first one on
  std::int64_t slot_ = 0;                      // where the pending frame starts
  bool stopped_ = false;                       // at keep_frames
  Picture picture_;
  VideoInput result_;
};

Result<void> FrameHolder::start(const AVFrame& frame) {
  pending_.reset(av_frame_alloc());
  if (!pending_) return out_of_memory(path_);
  first_timestamp_ = frame.best_effort_timestamp == AV_NOPTS_VALUE ? 0 : frame.best_effort_timestamp;
  if (frame.pts != AV_NOPTS_VALUE) presentation_start_ = frame.pts;
  const std::int32_t* matrix = track_matrix(stream_);
  if (matrix == nullptr) matrix = frame_matrix(frame);
  if (matrix != nullptr) {
    const auto found = matrix_orientation({matrix[0], matrix[1], matrix[3], matrix[4]});
    if (!found) return unreadable(path_, "it asks to be turned by other than a quarter turn");
    orientation_ = *found;
  }
  result_.width = result_.display_width = frame.width;
  result_.height = result_.display_height = frame.height;
  const AVRational aspect = av_guess_sample_aspect_ratio(&input_, &stream_, const_cast<AVFrame*>(&frame));  // only reads
  if (aspect.num > 0 && aspect.den > 0) {  // the longer of both ways to make the pixels square
    const auto stretched = [](int side, int num, int den) {
      return static_cast<int>(std::min<std::int64_t>(av_rescale(side, num, den), INT_MAX));
    };
    if (aspect.num > aspect.den) result_.display_width = stretched(frame.width, aspect.num, aspect.den);
    if (aspect.num < aspect.den) result_.display_height = stretched(frame.height, aspect.den, aspect.num);
  }
  if (orientation_.transpose) {
    std::swap(result_.width, result_.height);
    std::swap(result_.display_width, result_.display_height);
  }
  return {};
}

Result<Want> FrameHolder::add(const AVFrame& frame) {
  TRITIUM_TRY(to_rgb_.check(frame));
  if (!pending_) {
    TRITIUM_TRY(start(frame));
  } else {
    // Without a timestamp a frame follows the last one; none is shown before the one that precedes it.
    const bool known = frame.best_effort_timestamp != AV_NOPTS_VALUE;
    const std::int64_t next = known ? av_sat_sub64(frame.best_effort_timestamp, first_timestamp_) : av_sat_add64(timestamp_, duration_);
    timestamp_ = std::max(timestamp_, next);
    TRITIUM_TRY(show_until(clock_.slot(timestamp_)));
    if (stopped_) return Want::enough;
  }
  duration_ = frame_duration(frame) > 0 ? frame_duration(frame) : clock_.nominal_duration();
  av_frame_unref(pending_.get());
  const int code = av_frame_ref(pending_.get(), &frame);
  return code < 0 ? Result<Want>(av::file_error("decode", path_, code)) : Result<Want>(Want::more);
}

Result<void> FrameHolder::finish() {
  if (!pending_) return unreadable(path_, "its video track holds no picture");
  if (stopped_) return {};
  TRITIUM_TRY(show_until(clock_.slot(av_sat_add64(timestamp_, duration_))));
  if (stopped_ || result_.frames >= std::max<std::int64_t>(1, whole_frames(options_.min_seconds))) return {};
  return Error{ErrorCode::usage,
               fmt::format("'{}' lasts {:.2f} s ({} frames at {} per second), at least {:g} s are needed", path_.string(),
                           static_cast<double>(result_.frames) / kModelFps, result_.frames, kModelFps, options_.min_seconds),
               "", "use a longer video"};
}

Result<void> FrameHolder::show_until(std::int64_t slot) {
  if (options_.keep_frames > 0 && slot >= options_.keep_frames) {
    slot = options_.keep_frames;
    stopped_ = true;
  }
  if (slot > max_frames_) return too_long(path_, static_cast<double>(slot) / kModelFps, options_);
  if (slot <= slot_) return {};
  picture_.width = to_rgb_.width();
  picture_.height = to_rgb_.height();
  picture_.rgb.resize(static_cast<std::size_t>(picture_.width) * static_cast<std::size_t>(picture_.height) * 3);
  TRITIUM_TRY(to_rgb_.convert(*pending_, picture_.rgb));
  turn(picture_, orientation_);
  TRITIUM_TRY(sink_({picture_, result_.display_width, result_.display_height, static_cast<int>(slot_), static_cast<int>(slot - slot_)}));
  result_.frames = static_cast<int>(slot);
  slot_ = slot;
  return {};
}

// Moves the sound so that its sample 0 is the start of the pictures, and ends it where they end. lead: seconds it begins before them.
void align(StereoSound& sound, double lead, int frames) {
  const auto samples = [&](double seconds) { return std::llround(seconds * sound.sample_rate); };
  const std::int64_t end = samples(static_cast<double>(frames) / kModelFps);
  const auto size = static_cast<std::int64_t>(sound.left.size());
  if (-samples(lead) >= end) return keep_samples(sound, 0);  // it begins after the pictures
  for (std::vector<float>* channel : {&sound.left, &sound.right}) {
    if (lead > 0) channel->erase(channel->begin(), channel->begin() + std::min<std::int64_t>(samples(lead), size));
    if (lead < 0) channel->insert(channel->begin(), static_cast<std::size_t>(std::min<std::int64_t>(samples(-lead), end)), 0.0f);
  }
  keep_samples(sound, end);
}

Result<void> take_sound(const fs::path& path, const AVFormatContext& input, const AVStream& audio, SoundCollector& collector,
                        double video_start, VideoInput& out) {
  StereoSound sound = std::move(collector.sound());
  if (sound.left.empty()) return {};
  if (const std::int64_t stored = stored_samples(input, audio, sound.sample_rate); stored >= 0) keep_samples(sound, stored);
  const auto first = collector.first_timestamp();
  const double lead = first ? std::clamp(video_start - static_cast<double>(*first) * av_q2d(audio.time_base), -1e6, 1e6) : 0;
  if (lead > kSoundLead) return unreadable(path, fmt::format("its pictures start {:.0f} s after its sound", lead));
  align(sound, lead, out.frames);
  if (!sound.left.empty()) out.sound = std::move(sound);
  return {};
}

Result<VideoInput> load(const fs::path& path, const VideoOptions& options, const VideoSink& sink) {
  TRITIUM_TRY_ASSIGN(const av::Input input, av::open_input(path, options.cancel));
  AVStream* video = av::find_stream(*input, AVMEDIA_TYPE_VIDEO);
  AVStream* audio = options.sound ? av::find_stream(*input, AVMEDIA_TYPE_AUDIO) : nullptr;
  if (video == nullptr) return unreadable(path, "it holds no video");
  const double stated = video->duration == AV_NOPTS_VALUE ? 0 : static_cast<double>(video->duration) * av_q2d(video->time_base);
  if (stated * kModelFps >= static_cast<double>(whole_frames(options.max_seconds)) + 0.5) return too_long(path, stated, options);

  FrameHolder holder(path, *input, *video, options, sink);
  const double kept = options.keep_frames > 0 ? static_cast<double>(options.keep_frames) / kModelFps : options.max_seconds;
  SoundCollector collector(path, kept + kSoundLead);
  std::vector<TrackDecoder> tracks;
  TRITIUM_TRY_ASSIGN(TrackDecoder pictures, TrackDecoder::open(
                                                path, *video, [&](const AVFrame& frame) { return holder.add(frame); }, 0));
  tracks.push_back(std::move(pictures));
  if (audio != nullptr) {
    TRITIUM_TRY_ASSIGN(TrackDecoder track, TrackDecoder::open(path, *audio, [&](const AVFrame& frame) { return collector.add(frame); }));
    tracks.push_back(std::move(track));
  }
  TRITIUM_TRY(decode_tracks(path, *input, tracks, options.cancel));
  TRITIUM_TRY(holder.finish());
  VideoInput out = holder.result();
  const double start = static_cast<double>(holder.presentation_start()) * av_q2d(video->time_base);
  if (audio != nullptr) TRITIUM_TRY(take_sound(path, *input, *audio, collector, start, out));
  return out;
}

}  // namespace

Result<VideoInput> load_video(const fs::path& path, const VideoOptions& options, const VideoSink& sink) {
  try {
    auto video = load(path, options, sink);
    return video.ok() ? std::move(video) : Result<VideoInput>(as_request_error(video.error()));
  } catch (const std::bad_alloc&) { return out_of_memory(path); }
}

}  // namespace tritium
