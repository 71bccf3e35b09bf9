#include "media/rgb_converter.h"

#include "base/try.h"
#include "media/input_file.h"

#include <fmt/format.h>
#include <array>

extern "C" {
#include <libavutil/opt.h>
}

namespace tritium {
namespace {

constexpr int kHighDefinitionLines = 720;
constexpr int kScaler = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_BITEXACT | SWS_FULL_CHR_H_INT;

}  // namespace

Result<void> RgbConverter::check(const AVFrame& frame) {
  if (format_ < 0) TRITIUM_TRY(start(frame));
  if (frame.width != width_ || frame.height != height_ || frame.format != format_)
    return unreadable(path_, fmt::format("frame {} changes size or pixel format ({}x{} instead of {}x{})", frames_, frame.width,
                                         frame.height, width_, height_));
  ++frames_;
  return {};
}

Result<void> RgbConverter::convert(const AVFrame& frame, std::span<std::uint8_t> out) {
  const std::array<std::uint8_t*, 4> planes = {out.data(), nullptr, nullptr, nullptr};
  const std::array<int, 4> strides = {width_ * 3, 0, 0, 0};
  const int rows = sws_scale(to_rgb_.get(), frame.data, frame.linesize, 0, frame.height, planes.data(), strides.data());
  return rows == frame.height ? Result<void>() : Result<void>(unreadable(path_, "a frame cannot be converted to RGB"));
}

Result<void> RgbConverter::start(const AVFrame& frame) {
  width_ = frame.width;
  height_ = frame.height;
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

}  // namespace tritium
