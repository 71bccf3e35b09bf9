#include "media/reader.h"

#include "base/try.h"
#include "media/av_support.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <functional>
#include <new>

extern "C" {
#include <libavutil/opt.h>
}

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr int kSampleRate = 32000;
constexpr int kHighDefinitionLines = 720;
constexpr std::int64_t kMaxPixels = 64 << 20;  // of one picture, about twice an 8K frame: bounds what one hostile frame can take
constexpr int kScaler = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_BITEXACT | SWS_FULL_CHR_H_INT;

using FrameSink = std::function<Result<void>(const AVFrame&)>;

Error damaged(const fs::path& path, const std::string& what) {
  return Error{ErrorCode::failure, fmt::format("cannot read '{}': {}", path.string(), what), "", ""};
}

// One track: packets in, frames out to its sink.
class TrackDecoder {
 public:
  static Result<TrackDecoder> open(const fs::path& path, AVStream& stream, FrameSink sink);
  [[nodiscard]] int index() const { return stream_->index; }
  // nullptr: no more packets, give out what is left.
  Result<void> decode(const AVPacket* packet);

 private:
  TrackDecoder() = default;
  fs::path path_;
  AVStream* stream_ = nullptr;
  FrameSink sink_;
  av::Owned<AVCodecContext> context_;
  av::Owned<AVFrame> frame_;
};

Result<TrackDecoder> TrackDecoder::open(const fs::path& path, AVStream& stream, FrameSink sink) {
  const AVCodec* codec = avcodec_find_decoder(stream.codecpar->codec_id);
  if (codec == nullptr) return damaged(path, fmt::format("no decoder for '{}' is installed", avcodec_get_name(stream.codecpar->codec_id)));
  TrackDecoder out;
  out.path_ = path;
  out.stream_ = &stream;
  out.sink_ = std::move(sink);
  out.context_.reset(avcodec_alloc_context3(codec));
  out.frame_.reset(av_frame_alloc());
  if (!out.context_ || !out.frame_) return av::file_error("read", path, AVERROR(ENOMEM));
  int code = avcodec_parameters_to_context(out.context_.get(), stream.codecpar);
  out.context_->pkt_timebase = stream.time_base;
  out.context_->err_recognition = AV_EF_EXPLODE | AV_EF_CRCCHECK;  // an error instead of a guessed picture
  out.context_->max_pixels = kMaxPixels;
  out.context_->flags |= AV_CODEC_FLAG_BITEXACT;
  if (code >= 0) code = avcodec_open2(out.context_.get(), codec, nullptr);
  if (code < 0) return av::file_error("decode", path, code);
  return out;
}

Result<void> TrackDecoder::decode(const AVPacket* packet) {
  if (packet != nullptr && (packet->flags & AV_PKT_FLAG_CORRUPT) != 0) return damaged(path_, "the file ends early or is damaged");
  int code = avcodec_send_packet(context_.get(), packet);
  if (code < 0 && code != AVERROR_EOF) return av::file_error("decode", path_, code);
  while ((code = avcodec_receive_frame(context_.get(), frame_.get())) >= 0) {
    if (frame_->decode_error_flags != 0 || (frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0)
      return damaged(path_, fmt::format("its {} track is damaged", avcodec_get_name(context_->codec_id)));
    TRITIUM_TRY(sink_(*frame_));
  }
  return code == AVERROR(EAGAIN) || code == AVERROR_EOF ? Result<void>() : Result<void>(av::file_error("decode", path_, code));
}

// What is decoded so far may not exceed the limit.
Result<void> check_size(const fs::path& path, const Clip& clip, std::uint64_t more, std::uint64_t limit) {
  const std::uint64_t have = clip.rgb.size() + (clip.left.size() + clip.right.size()) * sizeof(float);
  if (have + more <= limit) return {};
  return Error{ErrorCode::does_not_fit, fmt::format("'{}' needs more than {} MiB when decoded", path.string(), limit >> 20), "",
               "use a shorter or smaller video"};
}

// Decoded pictures of any format to RGB, appended to the clip.
class PictureSink {
 public:
  PictureSink(fs::path path, Clip& clip, std::uint64_t limit) : path_(std::move(path)), clip_(clip), limit_(limit) {}

  Result<void> add(const AVFrame& frame) {
    if (clip_.frames == 0) TRITIUM_TRY(start(frame));
    if (frame.width != clip_.width || frame.height != clip_.height || frame.format != format_)
      return damaged(path_, fmt::format("frame {} changes size or pixel format ({}x{} instead of {}x{})", clip_.frames, frame.width,
                                        frame.height, clip_.width, clip_.height));
    TRITIUM_TRY(check_size(path_, clip_, clip_.frame_bytes(), limit_));
    const std::size_t begin = clip_.rgb.size();
    clip_.rgb.resize(begin + clip_.frame_bytes());
    const std::array<std::uint8_t*, 4> planes = {clip_.rgb.data() + begin, nullptr, nullptr, nullptr};
    const std::array<int, 4> strides = {clip_.width * 3, 0, 0, 0};
    const int rows = sws_scale(to_rgb_.get(), frame.data, frame.linesize, 0, frame.height, planes.data(), strides.data());
    if (rows != frame.height) return damaged(path_, fmt::format("frame {} cannot be converted to RGB", clip_.frames));
    ++clip_.frames;
    return {};
  }

 private:
  Result<void> start(const AVFrame& frame) {
    clip_.width = frame.width;
    clip_.height = frame.height;
    format_ = frame.format;
    const av::PixelLayout layout = av::pixel_layout(static_cast<AVPixelFormat>(frame.format), frame.color_range);
    to_rgb_.reset(sws_alloc_context());
    if (!to_rgb_) return av::file_error("decode", path_, AVERROR(ENOMEM));
    SwsContext* c = to_rgb_.get();
    // Chroma sited left, as H.264 and H.265 have it unless they say otherwise; -513 is libswscale's "unstated" (centre).
    const bool left = frame.chroma_location == AVCHROMA_LOC_LEFT || frame.chroma_location == AVCHROMA_LOC_UNSPECIFIED;
    int code = 0;
    for (const auto& [name, value] : {std::pair{"srcw", frame.width},
                                      {"srch", frame.height},
                                      {"dstw", frame.width},
                                      {"dsth", frame.height},
                                      {"sws_flags", kScaler},
                                      {"src_h_chr_pos", left ? 0 : -513},
                                      {"src_v_chr_pos", left ? 128 : -513}})
      if (code >= 0) code = av_opt_set_int(c, name, value, 0);
    if (code >= 0) code = av_opt_set_pixel_fmt(c, "src_format", layout.format, 0);
    if (code >= 0) code = av_opt_set_pixel_fmt(c, "dst_format", AV_PIX_FMT_RGB24, 0);
    if (code >= 0) code = sws_init_context(c, nullptr, nullptr);
    if (code < 0) return av::file_error("convert the pictures of", path_, code);
    const int unstated = frame.height >= kHighDefinitionLines ? SWS_CS_ITU709 : SWS_CS_ITU601;
    const bool stated = frame.colorspace != AVCOL_SPC_UNSPECIFIED && frame.colorspace != AVCOL_SPC_RGB;
    const int* matrix = sws_getCoefficients(stated ? static_cast<int>(frame.colorspace) : unstated);
    // A negative answer means that this pair of formats has no matrix (RGB to RGB): nothing to set.
    (void)sws_setColorspaceDetails(c, matrix, layout.full_range ? 1 : 0, matrix, 1, 0, 1 << 16, 1 << 16);
    return {};
  }

  fs::path path_;
  Clip& clip_;
  std::uint64_t limit_;
  int format_ = -1;
  av::Owned<SwsContext> to_rgb_;
};

// Decoded sound of any layout and rate to 32 kHz float stereo, appended to the clip.
class SoundSink {
 public:
  SoundSink(fs::path path, Clip& clip, std::uint64_t limit) : path_(std::move(path)), clip_(clip), limit_(limit) {}

  Result<void> add(const AVFrame& frame) {
    if (!resampler_) TRITIUM_TRY(start(frame));
    if (frame.format != format_ || frame.sample_rate != rate_ || frame.ch_layout.nb_channels != channels_)
      return damaged(path_, "its sound changes format in the middle");
    return convert(const_cast<const std::uint8_t**>(frame.extended_data), frame.nb_samples);
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

Result<void> decode_all(const fs::path& path, AVFormatContext& input, std::vector<TrackDecoder>& tracks, const CancelToken* cancel) {
  const av::Owned<AVPacket> packet(av_packet_alloc());
  if (!packet) return av::file_error("read", path, AVERROR(ENOMEM));
  int code = 0;
  while ((code = av_read_frame(&input, packet.get())) >= 0) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("reading video"));
    for (TrackDecoder& track : tracks)
      if (track.index() == packet->stream_index) TRITIUM_TRY(track.decode(packet.get()));
    av_packet_unref(packet.get());
  }
  if (code != AVERROR_EOF) return av::file_error("read", path, code);
  for (TrackDecoder& track : tracks) TRITIUM_TRY(track.decode(nullptr));
  return {};
}

// The last AAC frame is longer than the sound in it; MP4 knows where the sound ends (other containers only estimate it).
void drop_padding(Clip& clip, const AVFormatContext& input, const AVStream& stream) {
  if (std::string_view(input.iformat->name).rfind("mov,", 0) != 0) return;
  if (stream.duration == AV_NOPTS_VALUE || stream.duration <= 0) return;
  const auto samples = static_cast<std::size_t>(av_rescale_q_rnd(stream.duration, stream.time_base, {1, kSampleRate}, AV_ROUND_NEAR_INF));
  if (clip.left.size() <= samples) return;
  clip.left.resize(samples);
  clip.right.resize(samples);
}

Result<Clip> read_all(const fs::path& path, const ReadOptions& options) {
  TRITIUM_TRY_ASSIGN(const av::Input input, av::open_input(path));
  AVStream* video = av::find_stream(*input, AVMEDIA_TYPE_VIDEO);
  AVStream* audio = av::find_stream(*input, AVMEDIA_TYPE_AUDIO);
  if (video == nullptr && audio == nullptr) return damaged(path, "it holds neither pictures nor sound");
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
  TRITIUM_TRY(decode_all(path, *input, tracks, options.cancel));
  TRITIUM_TRY(sound.finish());
  if (video != nullptr && clip.frames == 0) return damaged(path, "its video track holds no picture");
  if (audio != nullptr) drop_padding(clip, *input, *audio);
  return clip;
}

}  // namespace

Result<Clip> read_clip(const fs::path& path, const ReadOptions& options) {
  try {
    return read_all(path, options);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::does_not_fit, "'" + path.string() + "' does not fit into memory when decoded", "",
                 "use a shorter or smaller video"};
  }
}

}  // namespace tritium
