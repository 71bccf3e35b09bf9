#include "media/video_encoder.h"

#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>

extern "C" {
#include <libavutil/opt.h>
}

namespace tritium {
namespace {

constexpr int kMaxSide = 16384;  // x264's own limit
// x264's output depends on its number of threads, so the number is a constant and not the number of CPUs.
constexpr int kThreads = 4;
constexpr int kSecondsBetweenKeyFrames = 2;  // a player seeks to a key frame; x264 adds more at scene cuts
constexpr std::array kPresets = {"ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow", "placebo"};
// Exact rounding and the same result on every instruction set.
constexpr int kScaler = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_BITEXACT | SWS_FULL_CHR_H_INP;

Result<void> check(const VideoEncoding& e) {
  if (e.width <= 0 || e.height <= 0 || e.width > kMaxSide || e.height > kMaxSide || e.width % 2 != 0 || e.height % 2 != 0)
    return Error{ErrorCode::usage, fmt::format("a picture of {}x{} cannot be stored as H.264 4:2:0", e.width, e.height), "size",
                 fmt::format("both sides must be even and from 2 to {}", kMaxSide)};
  if (e.fps_num <= 0 || e.fps_den <= 0)
    return Error{ErrorCode::usage, fmt::format("{}/{} is not a frame rate", e.fps_num, e.fps_den), "fps", "both numbers must be positive"};
  if (e.crf < 1 || e.crf > 51)
    return Error{ErrorCode::usage, fmt::format("CRF {} is out of range", e.crf), "crf", "1 (best) to 51 (worst); 16 looks lossless"};
  if (std::find(kPresets.begin(), kPresets.end(), e.preset) == kPresets.end())
    return Error{ErrorCode::usage, fmt::format("'{}' is not an x264 preset", e.preset), "preset",
                 fmt::format("one of {}", fmt::join(kPresets, ", "))};
  return {};
}

void describe_colour(AVCodecContext& context) {
  context.color_range = AVCOL_RANGE_MPEG;
  context.color_primaries = AVCOL_PRI_BT709;
  context.color_trc = AVCOL_TRC_BT709;
  context.colorspace = AVCOL_SPC_BT709;
  context.chroma_sample_location = AVCHROMA_LOC_LEFT;
}

// The conversion that describe_colour() promises: full-range RGB to limited-range BT.709, chroma sited left.
Result<av::Owned<SwsContext>> make_converter(int width, int height) {
  av::Owned<SwsContext> converter(sws_alloc_context());
  if (!converter) return av::call_error("allocate the colour conversion", AVERROR(ENOMEM));
  SwsContext* c = converter.get();
  for (const auto& [name, value] : {std::pair{"srcw", width},
                                    {"srch", height},
                                    {"dstw", width},
                                    {"dsth", height},
                                    {"sws_flags", kScaler},
                                    {"dst_h_chr_pos", 0},
                                    {"dst_v_chr_pos", 128}})
    if (const int code = av_opt_set_int(c, name, value, 0); code < 0)
      return av::call_error(fmt::format("set {} of the colour conversion", name), code);
  if (const int code = av_opt_set_pixel_fmt(c, "src_format", AV_PIX_FMT_RGB24, 0); code < 0)
    return av::call_error("convert from RGB", code);
  if (const int code = av_opt_set_pixel_fmt(c, "dst_format", AV_PIX_FMT_YUV420P, 0); code < 0)
    return av::call_error("convert to YUV", code);
  const int* matrix = sws_getCoefficients(SWS_CS_ITU709);
  if (const int code = sws_init_context(c, nullptr, nullptr); code < 0) return av::call_error("prepare the colour conversion", code);
  if (sws_setColorspaceDetails(c, matrix, 1, matrix, 0, 0, 1 << 16, 1 << 16) < 0)
    return Error{ErrorCode::failure, "libswscale cannot convert RGB to BT.709", "", ""};
  return converter;
}

Result<av::Owned<AVFrame>> make_picture(const AVCodecContext& context) {
  av::Owned<AVFrame> picture(av_frame_alloc());
  if (!picture) return av::call_error("allocate a picture", AVERROR(ENOMEM));
  picture->format = context.pix_fmt;
  picture->width = context.width;
  picture->height = context.height;
  picture->color_range = context.color_range;
  picture->color_primaries = context.color_primaries;
  picture->color_trc = context.color_trc;
  picture->colorspace = context.colorspace;
  picture->chroma_location = context.chroma_sample_location;
  if (const int code = av_frame_get_buffer(picture.get(), 0); code < 0) return av::call_error("allocate a picture", code);
  return picture;
}

Result<av::Owned<AVCodecContext>> make_context(const VideoEncoding& e) {
  const AVCodec* codec = avcodec_find_encoder_by_name("libx264");
  if (codec == nullptr)
    return Error{ErrorCode::failure, "the installed libavcodec has no libx264 encoder, so no H.264 file can be written", "",
                 "install FFmpeg libraries built with x264 (Debian: libavcodec59 or libavcodec61 with libx264)"};
  av::Owned<AVCodecContext> context(avcodec_alloc_context3(codec));
  if (!context) return av::call_error("allocate the encoder", AVERROR(ENOMEM));
  context->width = e.width;
  context->height = e.height;
  context->pix_fmt = AV_PIX_FMT_YUV420P;
  context->time_base = {e.fps_den, e.fps_num};
  context->framerate = {e.fps_num, e.fps_den};
  context->sample_aspect_ratio = {1, 1};
  context->gop_size = std::max(1, kSecondsBetweenKeyFrames * e.fps_num / e.fps_den);
  context->thread_count = kThreads;
  context->flags |= AV_CODEC_FLAG_GLOBAL_HEADER | AV_CODEC_FLAG_BITEXACT;
  describe_colour(*context);

  AVDictionary* options = nullptr;
  av_dict_set(&options, "preset", e.preset.c_str(), 0);
  // x264's fastest routines for some processors read memory that was never written: the same frames would not always give the same bytes.
  av_dict_set(&options, "x264-params", "cpu-independent=1", 0);
  av_dict_set_int(&options, "crf", e.crf, 0);
  av_dict_set(&options, "profile", "high", 0);
  av_dict_set(&options, "8x8dct", "1", 0);  // x264 announces a lower profile when no feature of High is in use
  const int code = avcodec_open2(context.get(), codec, &options);
  av_dict_free(&options);
  if (code < 0) return av::call_error("encode video with libx264", code);
  return context;
}

}  // namespace

Result<void> drain_encoder(AVCodecContext& context, AVPacket& packet, const PacketSink& sink) {
  for (;;) {
    const int code = avcodec_receive_packet(&context, &packet);
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return {};
    if (code < 0) return av::call_error(fmt::format("encode with {}", context.codec->name), code);
    auto taken = sink(packet);
    av_packet_unref(&packet);
    TRITIUM_TRY(std::move(taken));
  }
}

Result<VideoEncoder> VideoEncoder::open(const VideoEncoding& encoding) {
  av::keep_complaints();
  TRITIUM_TRY(check(encoding));
  VideoEncoder out;
  TRITIUM_TRY_ASSIGN(out.context_, make_context(encoding));
  TRITIUM_TRY_ASSIGN(out.to_yuv_, make_converter(encoding.width, encoding.height));
  TRITIUM_TRY_ASSIGN(out.picture_, make_picture(*out.context_));
  out.packet_.reset(av_packet_alloc());
  if (!out.packet_) return av::call_error("allocate a packet", AVERROR(ENOMEM));
  return out;
}

Result<void> VideoEncoder::send(const AVFrame* frame, const PacketSink& sink) {
  if (const int code = avcodec_send_frame(context_.get(), frame); code < 0) return av::call_error("encode video with libx264", code);
  return drain_encoder(*context_, *packet_, sink);
}

Result<void> VideoEncoder::encode(std::span<const std::uint8_t> rgb, const PacketSink& sink) {
  const std::size_t row = static_cast<std::size_t>(context_->width) * 3;
  if (rgb.size() != row * static_cast<std::size_t>(context_->height))
    return Error{ErrorCode::failure,
                 fmt::format("frame {} has {} bytes instead of {}x{}x3", next_, rgb.size(), context_->width, context_->height), "", ""};
  // The encoder may still hold the previous picture's buffer.
  if (const int code = av_frame_make_writable(picture_.get()); code < 0) return av::call_error("allocate a picture", code);
  constexpr std::size_t kReadBeyond = 64;
  padded_.resize(rgb.size() + kReadBeyond);
  std::copy(rgb.begin(), rgb.end(), padded_.begin());
  const std::array<const std::uint8_t*, 4> planes = {padded_.data(), nullptr, nullptr, nullptr};
  const std::array<int, 4> strides = {static_cast<int>(row), 0, 0, 0};
  const int rows = sws_scale(to_yuv_.get(), planes.data(), strides.data(), 0, context_->height, picture_->data, picture_->linesize);
  if (rows != context_->height) return av::call_error("convert a picture for encoding", rows < 0 ? rows : AVERROR_EXTERNAL);
  picture_->pts = next_++;
  return send(picture_.get(), sink);
}

Result<void> VideoEncoder::finish(const PacketSink& sink) { return send(nullptr, sink); }

}  // namespace tritium
