#include "media/reader.h"

#include "base/try.h"
#include "media/input_file.h"
#include "media/rgb_converter.h"
#include "media/track_decoder.h"

#include <fmt/format.h>
#include <array>
#include <new>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr int kSampleRate = 32000;

// What is decoded so far may not exceed the limit.
Result<void> check_size(const fs::path& path, const Clip& clip, std::uint64_t more, std::uint64_t limit) {
  const std::uint64_t have = clip.rgb.size() + (clip.left.size() + clip.right.size()) * sizeof(float);
  if (have + more <= limit) return {};
  return Error{ErrorCode::does_not_fit, fmt::format("'{}' needs more than {} MiB when decoded", path.string(), limit >> 20), "",
               "use a shorter or smaller video"};
}

// Decoded pictures to RGB, appended to the clip.
class PictureSink {
 public:
  PictureSink(fs::path path, Clip& clip, std::uint64_t limit) : path_(std::move(path)), clip_(clip), limit_(limit), to_rgb_(path_) {}

  Result<Want> add(const AVFrame& frame) {
    TRITIUM_TRY(to_rgb_.check(frame));
    clip_.width = frame.width;
    clip_.height = frame.height;
    TRITIUM_TRY(check_size(path_, clip_, clip_.frame_bytes(), limit_));
    const std::size_t begin = clip_.rgb.size();
    clip_.rgb.resize(begin + clip_.frame_bytes());
    TRITIUM_TRY(to_rgb_.convert(frame, std::span(clip_.rgb).subspan(begin)));
    ++clip_.frames;
    return Want::more;
  }

 private:
  fs::path path_;
  Clip& clip_;
  std::uint64_t limit_;
  RgbConverter to_rgb_;
};

// Decoded sound of any layout and rate to 32 kHz float stereo, appended to the clip.
class SoundSink {
 public:
  SoundSink(fs::path path, Clip& clip, std::uint64_t limit) : path_(std::move(path)), clip_(clip), limit_(limit) {}

  Result<Want> add(const AVFrame& frame) {
    if (!resampler_) TRITIUM_TRY(start(frame));
    if (frame.format != format_ || frame.sample_rate != rate_ || frame.ch_layout.nb_channels != channels_)
      return unreadable(path_, "its sound changes format in the middle");
    TRITIUM_TRY(convert(const_cast<const std::uint8_t**>(frame.extended_data), frame.nb_samples));
    return Want::more;
  }
  Result<void> finish() { return resampler_ ? convert(nullptr, 0) : Result<void>(); }

 private:
  Result<void> start(const AVFrame& frame) {
    format_ = frame.format;
    rate_ = frame.sample_rate;
    channels_ = frame.ch_layout.nb_channels;
    AVChannelLayout from{}, to{};
    av_channel_layout_default(&to, 2);
    int code = frame.ch_layout.order == AV_CHANNEL_ORDER_UNSPEC ? 0 : av_channel_layout_copy(&from, &frame.ch_layout);
    if (frame.ch_layout.order == AV_CHANNEL_ORDER_UNSPEC) av_channel_layout_default(&from, channels_);
    SwrContext* made = nullptr;
    if (code >= 0)
      code =
          swr_alloc_set_opts2(&made, &to, AV_SAMPLE_FMT_FLTP, kSampleRate, &from, static_cast<AVSampleFormat>(format_), rate_, 0, nullptr);
    resampler_.reset(made);
    if (code >= 0) code = swr_init(made);
    av_channel_layout_uninit(&from);
    return code < 0 ? Result<void>(av::file_error("convert the sound of", path_, code)) : Result<void>();
  }

  Result<void> convert(const std::uint8_t** data, int samples) {
    const int room = swr_get_out_samples(resampler_.get(), samples);
    if (room < 0) return av::file_error("convert the sound of", path_, room);
    TRITIUM_TRY(check_size(path_, clip_, static_cast<std::uint64_t>(room) * 2 * sizeof(float), limit_));
    const std::size_t begin = clip_.left.size();
    clip_.left.resize(begin + static_cast<std::size_t>(room));
    clip_.right.resize(clip_.left.size());
    std::array<std::uint8_t*, 2> planes = {reinterpret_cast<std::uint8_t*>(clip_.left.data() + begin),
                                           reinterpret_cast<std::uint8_t*>(clip_.right.data() + begin)};
    const int made = swr_convert(resampler_.get(), planes.data(), room, data, samples);
    if (made < 0) return av::file_error("convert the sound of", path_, made);
    clip_.left.resize(begin + static_cast<std::size_t>(made));
    clip_.right.resize(clip_.left.size());
    return {};
  }

  fs::path path_;
  Clip& clip_;
  std::uint64_t limit_;
  int format_ = -1, rate_ = 0, channels_ = 0;
  av::Owned<SwrContext> resampler_;
};

Result<Clip> read_all(const fs::path& path, const ReadOptions& options) {
  TRITIUM_TRY_ASSIGN(const av::Input input, av::open_input(path, options.cancel));
  AVStream* video = av::find_stream(*input, AVMEDIA_TYPE_VIDEO);
  AVStream* audio = av::find_stream(*input, AVMEDIA_TYPE_AUDIO);
  if (video == nullptr && audio == nullptr) return unreadable(path, "it holds neither pictures nor sound");
  Clip clip;
  PictureSink pictures(path, clip, options.limit_bytes);
  SoundSink sound(path, clip, options.limit_bytes);
  std::vector<TrackDecoder> tracks;
  if (video != nullptr) {
    TRITIUM_TRY_ASSIGN(TrackDecoder track, TrackDecoder::open(path, *video, [&](const AVFrame& frame) { return pictures.add(frame); }));
    tracks.push_back(std::move(track));
    const AVRational guess = av_guess_frame_rate(input.get(), video, nullptr);
    const AVRational rate = video->avg_frame_rate.num > 0 && video->avg_frame_rate.den > 0 ? video->avg_frame_rate : guess;
    if (rate.num > 0 && rate.den > 0) clip.fps_num = rate.num, clip.fps_den = rate.den;
  }
  if (audio != nullptr) {
    TRITIUM_TRY_ASSIGN(TrackDecoder track, TrackDecoder::open(path, *audio, [&](const AVFrame& frame) { return sound.add(frame); }));
    tracks.push_back(std::move(track));
  }
  TRITIUM_TRY(decode_tracks(path, *input, tracks, options.cancel));
  TRITIUM_TRY(sound.finish());
  if (video != nullptr && clip.frames == 0) return unreadable(path, "its video track holds no picture");
  const std::int64_t samples = audio != nullptr ? stored_samples(*input, *audio, kSampleRate) : -1;
  if (samples >= 0 && static_cast<std::size_t>(samples) < clip.left.size()) {
    clip.left.resize(static_cast<std::size_t>(samples));
    clip.right.resize(clip.left.size());
  }
  return clip;
}

}  // namespace

Result<Clip> read_clip(const fs::path& path, const ReadOptions& options) {
  try {
    return read_all(path, options);
  } catch (const std::bad_alloc&) { return out_of_memory(path); }
}

}  // namespace tritium
