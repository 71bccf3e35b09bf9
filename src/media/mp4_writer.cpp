#include "media/mp4_writer.h"

#include "base/try.h"
#include "media/audio_encoder.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace tritium {
namespace fs = std::filesystem;
namespace {

// Closes the file; an output that was not finished is simply dropped.
struct CloseOutput {
  void operator()(AVFormatContext* p) const {
    if (p->pb != nullptr) avio_closep(&p->pb);
    avformat_free_context(p);
  }
};
using Output = std::unique_ptr<AVFormatContext, CloseOutput>;

Result<void> set_tag(AVFormatContext& output, const std::string& name, const std::string& value) {
  if (name.empty() || name.find('\0') != std::string::npos || value.find('\0') != std::string::npos)
    return Error{ErrorCode::usage, fmt::format("the tag '{}' is unnamed or holds a zero byte", name), "tags", "use text"};
  if (const int code = av_dict_set(&output.metadata, name.c_str(), value.c_str(), 0); code < 0)
    return av::call_error("keep the tags in memory", code);
  return {};
}

Result<AVStream*> add_stream(AVFormatContext& output, const AVCodecContext& context) {
  AVStream* stream = avformat_new_stream(&output, nullptr);
  if (stream == nullptr) return av::call_error("add a track", AVERROR(ENOMEM));
  if (const int code = avcodec_parameters_from_context(stream->codecpar, &context); code < 0)
    return av::call_error("describe a track", code);
  stream->time_base = context.time_base;
  return stream;
}

// Ticks per second in which both tracks have whole lengths (96000 for 24 fps and 32 kHz). The usual 1000 would round the end of
// the sound up to the next millisecond.
std::int64_t common_ticks(const Mp4Format& format) {
  constexpr std::int64_t kMost = 1'000'000;  // an odd rate is then rounded, to less than a sample
  const std::int64_t both = format.sample_rate == 0 ? format.fps_num : std::lcm<std::int64_t>(format.fps_num, format.sample_rate);
  return std::min(both, kMost);
}

// Rejects what an encoder would refuse without saying where. `first`: position of the span in the channel.
Result<void> check_samples(std::span<const float> samples, const char* channel, std::size_t first) {
  const auto bad = std::find_if(samples.begin(), samples.end(), [](float v) { return !std::isfinite(v); });
  if (bad == samples.end()) return {};
  return Error{ErrorCode::rejected,
               fmt::format("sample {} of the {} channel is not finite", first + static_cast<std::size_t>(bad - samples.begin()), channel),
               "", ""};
}

}  // namespace

struct Mp4Writer::State {
  fs::path path;
  Mp4Format format;
  const CancelToken* cancel = nullptr;
  Output output;
  std::optional<VideoEncoder> video;
  std::optional<AudioEncoder> audio;
  AVStream* video_stream = nullptr;
  AVStream* audio_stream = nullptr;
  std::vector<float> left, right;  // all the sound so far; audio->samples() of it are encoded
  int frames = 0;

  Result<void> check_cancel() const { return cancel == nullptr ? Result<void>() : cancel->check("video encoding"); }
  // Length of the pictures so far, and of one frame, in samples.
  [[nodiscard]] std::int64_t frames_in_samples(std::int64_t count) const {
    return av_rescale_rnd(count * format.fps_den, format.sample_rate, format.fps_num, AV_ROUND_NEAR_INF);
  }
  Result<void> open_output();
  Result<void> write(AVPacket& packet, AVStream* stream, AVRational time_base, std::int64_t duration);
  Result<void> encode_sound_up_to(std::int64_t sample);
  Result<void> finish_sound(Mp4Summary& summary);
  Result<void> finish_file(const Mp4Tags& tags);
  PacketSink video_sink();
  PacketSink audio_sink();
};

Result<void> Mp4Writer::State::open_output() {
  // libav opens the file twice (the second time to move the index to the front): give it a name that means a file in any case.
  const std::string url = "file:" + path.string();
  AVFormatContext* made = nullptr;
  if (const int code = avformat_alloc_output_context2(&made, nullptr, "mp4", url.c_str()); code < 0)
    return av::file_error("write", path, code);
  output.reset(made);
  output->flags |= AVFMT_FLAG_BITEXACT;
  TRITIUM_TRY_ASSIGN(video_stream, add_stream(*output, video->context()));
  video_stream->avg_frame_rate = {format.fps_num, format.fps_den};
  if (audio) { TRITIUM_TRY_ASSIGN(audio_stream, add_stream(*output, audio->context())); }
  if (const int code = avio_open(&output->pb, url.c_str(), AVIO_FLAG_WRITE); code < 0) return av::file_error("write", path, code);

  AVDictionary* muxer = nullptr;
  av_dict_set(&muxer, "movflags", "+faststart+use_metadata_tags", 0);
  av_dict_set_int(&muxer, "movie_timescale", common_ticks(format), 0);
  const int code = avformat_write_header(output.get(), &muxer);
  av_dict_free(&muxer);
  return code < 0 ? Result<void>(av::file_error("write", path, code)) : Result<void>();
}

Result<void> Mp4Writer::State::write(AVPacket& packet, AVStream* stream, AVRational time_base, std::int64_t duration) {
  TRITIUM_TRY(check_cancel());
  packet.stream_index = stream->index;
  if (duration > 0) packet.duration = duration;
  av_packet_rescale_ts(&packet, time_base, stream->time_base);
  int code = av_interleaved_write_frame(output.get(), &packet);
  if (code >= 0) code = output->pb->error;  // a write that failed in the buffer behind
  return code < 0 ? Result<void>(av::file_error("write", path, code)) : Result<void>();
}

PacketSink Mp4Writer::State::video_sink() {
  return [this](AVPacket& packet) { return write(packet, video_stream, video->context().time_base, 1); };
}

PacketSink Mp4Writer::State::audio_sink() {
  return [this](AVPacket& packet) { return write(packet, audio_stream, audio->context().time_base, 0); };
}

Result<void> Mp4Writer::State::encode_sound_up_to(std::int64_t sample) {
  const auto first = static_cast<std::size_t>(audio->samples());
  const std::size_t end = std::min(left.size(), static_cast<std::size_t>(sample));
  if (end <= first) return {};
  return audio->encode(std::span(left).subspan(first, end - first), std::span(right).subspan(first, end - first), audio_sink());
}

Result<void> Mp4Writer::State::finish_sound(Mp4Summary& summary) {
  const std::int64_t pictures = frames_in_samples(frames);
  const auto given = static_cast<std::int64_t>(left.size());
  summary.samples = given;
  if (std::abs(given - pictures) >= frames_in_samples(1)) {
    summary.samples = pictures;
    summary.silence_samples = std::max<std::int64_t>(0, pictures - given);
    summary.cut_samples = std::max<std::int64_t>(0, given - pictures);
    left.resize(static_cast<std::size_t>(pictures));
    right.resize(static_cast<std::size_t>(pictures));
  }
  TRITIUM_TRY(encode_sound_up_to(summary.samples));
  return audio->finish(audio_sink());
}

Result<void> Mp4Writer::State::finish_file(const Mp4Tags& tags) {
  // Given before the header, "encoder" would be replaced by libav's own name.
  for (const auto& [name, value] : tags.others) TRITIUM_TRY(set_tag(*output, name, value));
  if (!tags.metadata_json.empty()) TRITIUM_TRY(set_tag(*output, kMetadataTag, tags.metadata_json));
  int code = av_write_trailer(output.get());
  if (code >= 0) code = output->pb->error;
  const int closed = avio_closep(&output->pb);
  if (code >= 0) code = closed;
  return code < 0 ? Result<void>(av::file_error("write", path, code)) : Result<void>();
}

Mp4Writer::Mp4Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Mp4Writer::Mp4Writer(Mp4Writer&&) noexcept = default;
Mp4Writer::~Mp4Writer() = default;

Result<Mp4Writer> Mp4Writer::open(const fs::path& path, const Mp4Format& format, const Mp4Options& options, const CancelToken* cancel) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->format = format;
  state->cancel = cancel;
  TRITIUM_TRY_ASSIGN(state->video,
                     VideoEncoder::open({format.width, format.height, format.fps_num, format.fps_den, options.crf, options.preset}));
  if (format.sample_rate != 0) { TRITIUM_TRY_ASSIGN(state->audio, AudioEncoder::open(format.sample_rate, options.audio_bits_per_second)); }
  TRITIUM_TRY(state->open_output());
  return Mp4Writer(std::move(state));
}

Result<void> Mp4Writer::add_frame(std::span<const std::uint8_t> rgb) {
  TRITIUM_TRY(state_->check_cancel());
  TRITIUM_TRY(state_->video->encode(rgb, state_->video_sink()));
  ++state_->frames;
  return state_->audio ? state_->encode_sound_up_to(state_->frames_in_samples(state_->frames)) : Result<void>();
}

Result<void> Mp4Writer::add_audio(std::span<const float> left, std::span<const float> right) {
  State& s = *state_;
  if (!s.audio || left.size() != right.size())
    return Error{ErrorCode::failure,
                 s.audio ? fmt::format("the channels differ in length: {} and {} samples", left.size(), right.size())
                         : "the file was opened without a sound track",
                 "", ""};
  TRITIUM_TRY(check_samples(left, "left", s.left.size()));
  TRITIUM_TRY(check_samples(right, "right", s.left.size()));
  s.left.insert(s.left.end(), left.begin(), left.end());
  s.right.insert(s.right.end(), right.begin(), right.end());
  // Sound never gets ahead of the pictures: what lies beyond them may have to be cut at the end.
  return s.encode_sound_up_to(s.frames_in_samples(s.frames));
}

Result<Mp4Summary> Mp4Writer::finish(const Mp4Tags& tags) {
  State& s = *state_;
  if (s.frames == 0) return Error{ErrorCode::failure, "no frame was given for '" + s.path.string() + "'", "", ""};
  Mp4Summary summary;
  summary.frames = s.frames;
  TRITIUM_TRY(s.video->finish(s.video_sink()));
  if (s.audio) TRITIUM_TRY(s.finish_sound(summary));
  TRITIUM_TRY(s.check_cancel());
  TRITIUM_TRY(s.finish_file(tags));
  return summary;
}

std::uint64_t Mp4Writer::working_bytes(int width, int height) {
  constexpr std::uint64_t kFixed = std::uint64_t{8} << 20, kPerPixel = 240;
  return kFixed + kPerPixel * static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
}

Result<Mp4Summary> write_mp4(const Clip& clip, const fs::path& path, const Mp4Options& options, const Mp4Tags& tags,
                             const CancelToken* cancel, const FrameProgress& progress) {
  if (!clip.pictures_complete())
    return Error{
        ErrorCode::failure,
        fmt::format("the clip holds {} bytes of pictures instead of {}x{}x{}x3", clip.rgb.size(), clip.frames, clip.height, clip.width), "",
        ""};
  const bool sound = !clip.left.empty() || !clip.right.empty();
  const Mp4Format format{clip.width, clip.height, clip.fps_num, clip.fps_den, sound ? clip.sample_rate : 0};
  TRITIUM_TRY_ASSIGN(Mp4Writer writer, Mp4Writer::open(path, format, options, cancel));
  if (sound) TRITIUM_TRY(writer.add_audio(clip.left, clip.right));
  for (int i = 0; i < clip.frames; ++i) {
    TRITIUM_TRY(writer.add_frame(clip.frame(i)));
    if (progress) progress(i + 1, clip.frames);
  }
  return writer.finish(tags);
}

}  // namespace tritium
