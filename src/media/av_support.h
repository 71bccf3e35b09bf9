// Ownership and error texts for libav (FFmpeg 5.1 to 7.1). Private to src/media.
#pragma once

#include <tritium/result.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>
}

namespace tritium::av {

struct Release {
  void operator()(AVFrame* p) const { av_frame_free(&p); }
  void operator()(AVPacket* p) const { av_packet_free(&p); }
  void operator()(AVCodecContext* p) const { avcodec_free_context(&p); }
  void operator()(SwsContext* p) const { sws_freeContext(p); }
  void operator()(SwrContext* p) const { swr_free(&p); }
};
template <class T>
using Owned = std::unique_ptr<T, Release>;

// "Invalid data found when processing input": libav's words for a negative return value.
std::string reason(int code);

// libav prints its complaints to standard error. From the first call on they are kept instead: the last error that this
// thread's calls logged is returned by take_complaint() (which forgets it), to be added to our own message.
void keep_complaints();
std::string take_complaint();

// "cannot <action>: <reason>", with the kept complaint. Code: failure; does_not_fit when memory ran out.
Error call_error(std::string_view action, int code);
// "cannot <action> '<path>': <reason>". Out of space (disk, quota or file size limit): does_not_fit.
Error file_error(const char* action, const std::filesystem::path& path, int code);

// What a pixel format really holds: some formats exist twice, the second time only to say "full range".
struct PixelLayout {
  AVPixelFormat format;  // yuv420p for yuvj420p, and so on
  bool full_range;
};
PixelLayout pixel_layout(AVPixelFormat format, AVColorRange range);

}  // namespace tritium::av
