#include "base/try.h"
#include "media/av_input.h"
#include "media/reader.h"

#include <array>
#include <cstdio>
#include <fstream>

extern "C" {
#include <libavutil/pixdesc.h>
}

namespace tritium {
namespace {

std::string name_or(const char* name, const char* fallback = "unknown") { return name == nullptr ? fallback : name; }

double seconds(std::int64_t duration, AVRational time_base) {
  return duration == AV_NOPTS_VALUE ? 0 : static_cast<double>(duration) * av_q2d(time_base);
}

// MP4 is a row of boxes: 4 bytes size, 4 bytes type; size 1: 8 bytes of size follow; size 0: to the end of the file.
std::optional<bool> moov_before_mdat(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::uint64_t position = 0;
  std::optional<std::uint64_t> moov, mdat;
  std::array<unsigned char, 16> head{};
  while (!(moov && mdat) && in.seekg(static_cast<std::streamoff>(position))) {
    if (!in.read(reinterpret_cast<char*>(head.data()), 8)) break;
    std::uint64_t size = 0;
    for (int i = 0; i < 4; ++i) size = size << 8 | head[static_cast<std::size_t>(i)];
    const std::string type(reinterpret_cast<const char*>(head.data()) + 4, 4);
    if (size == 1) {
      if (!in.read(reinterpret_cast<char*>(head.data()) + 8, 8)) break;
      size = 0;
      for (std::size_t i = 8; i < 16; ++i) size = size << 8 | head[i];
    }
    if (type == "moov" && !moov) moov = position;
    if (type == "mdat" && !mdat) mdat = position;
    if (size < 8 || size > (1ull << 62) - position) break;
    position += size;
  }
  if (!moov || !mdat) return std::nullopt;
  return *moov < *mdat;
}

Result<std::int64_t> count_packets(AVFormatContext& input, int stream, const std::filesystem::path& path) {
  const av::Owned<AVPacket> packet(av_packet_alloc());
  if (!packet) return av::file_error("read", path, AVERROR(ENOMEM));
  std::int64_t count = 0;
  int code = 0;
  while ((code = av_read_frame(&input, packet.get())) >= 0) {
    if (packet->stream_index == stream) ++count;
    av_packet_unref(packet.get());
  }
  if (code != AVERROR_EOF) return av::file_error("read", path, code);
  return count;
}

VideoInfo describe_video(AVFormatContext& input, AVStream& stream) {
  const AVCodecParameters& p = *stream.codecpar;
  VideoInfo out;
  out.codec = name_or(avcodec_get_name(p.codec_id));
  out.profile = name_or(avcodec_profile_name(p.codec_id, p.profile), "");
  for (unsigned shift = 0; shift < 32; shift += 8)
    if (const char letter = static_cast<char>(p.codec_tag >> shift & 0xff); letter != 0) out.tag += letter;
  out.pixel_format = name_or(av_get_pix_fmt_name(static_cast<AVPixelFormat>(p.format)));
  out.range = name_or(av_color_range_name(p.color_range));
  out.matrix = name_or(av_color_space_name(p.color_space));
  out.primaries = name_or(av_color_primaries_name(p.color_primaries));
  out.transfer = name_or(av_color_transfer_name(p.color_trc));
  out.width = p.width;
  out.height = p.height;
  const AVRational rate = av_guess_frame_rate(&input, &stream, nullptr);
  const AVRational average = stream.avg_frame_rate.num > 0 ? stream.avg_frame_rate : rate;
  out.fps_num = average.num;
  out.fps_den = average.den;
  out.frames = stream.nb_frames;
  out.seconds = seconds(stream.duration, stream.time_base);
  return out;
}

AudioInfo describe_audio(const AVStream& stream) {
  const AVCodecParameters& p = *stream.codecpar;
  return {name_or(avcodec_get_name(p.codec_id)), name_or(avcodec_profile_name(p.codec_id, p.profile), ""), p.sample_rate,
          p.ch_layout.nb_channels, seconds(stream.duration, stream.time_base)};
}

}  // namespace

Result<MediaInfo> probe_media(const std::filesystem::path& path) {
  TRITIUM_TRY_ASSIGN(const av::Input input, av::open_input(path));
  MediaInfo out;
  out.container = input->iformat->name;
  out.seconds = seconds(input->duration, {1, AV_TIME_BASE});
  if (av::is_mov(*input)) out.moov_before_mdat = moov_before_mdat(path);
  const AVDictionaryEntry* tag = nullptr;
  while ((tag = av_dict_get(input->metadata, "", tag, AV_DICT_IGNORE_SUFFIX)) != nullptr) out.metadata[tag->key] = tag->value;

  if (const AVStream* audio = av::find_stream(*input, AVMEDIA_TYPE_AUDIO)) out.audio = describe_audio(*audio);
  if (AVStream* video = av::find_stream(*input, AVMEDIA_TYPE_VIDEO)) {
    out.video = describe_video(*input, *video);
    if (out.video->frames == 0) { TRITIUM_TRY_ASSIGN(out.video->frames, count_packets(*input, video->index, path)); }
  }
  if (!out.video && !out.audio) return Error{ErrorCode::failure, "'" + path.string() + "' holds neither pictures nor sound", "", ""};
  return out;
}

}  // namespace tritium
