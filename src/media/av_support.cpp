#include "media/av_support.h"

#include <sys/stat.h>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <mutex>

namespace tritium::av {
namespace {

thread_local std::string complaint;

// Containers read here. Left out on purpose: everything that names other files (hls, dash, concat, image2, sdp ...).
constexpr const char* kContainers = "mov,matroska,webm,avi,mpegts,mpeg,flv,wav,w64,mp3,flac,ogg,aac,aiff,caf";

void keep_line(void*, int level, const char* format, va_list arguments) {
  if (level > AV_LOG_ERROR) return;
  std::array<char, 512> line{};
  std::vsnprintf(line.data(), line.size(), format, arguments);
  std::string text = line.data();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (!text.empty()) complaint = text;
}

}  // namespace

std::string reason(int code) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(code, text.data(), text.size());
  return text.data();
}

void keep_complaints() {
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_callback(keep_line); });
  complaint.clear();
}

std::string take_complaint() { return std::exchange(complaint, {}); }

Error call_error(std::string_view action, int code) {
  std::string message = "cannot " + std::string(action) + ": " + reason(code);
  if (const std::string detail = take_complaint(); !detail.empty()) message += ": " + detail;
  return Error{code == AVERROR(ENOMEM) ? ErrorCode::does_not_fit : ErrorCode::failure, message, "", ""};
}

Error file_error(const char* action, const std::filesystem::path& path, int code) {
  Error error = call_error(std::string(action) + " '" + path.string() + "'", code);
  if (code == AVERROR(ENOSPC) || code == AVERROR(EDQUOT) || code == AVERROR(EFBIG)) {
    error.code = ErrorCode::does_not_fit;
    error.hint = "free some space or choose another folder";
  }
  return error;
}

Result<Input> open_input(const std::filesystem::path& path) {
  keep_complaints();
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return file_error("open", path, AVERROR(errno));
  if (!S_ISREG(info.st_mode)) return Error{ErrorCode::failure, "cannot read '" + path.string() + "': not a regular file", "", ""};
  if (info.st_size == 0) return Error{ErrorCode::failure, "cannot read '" + path.string() + "': the file is empty", "", ""};

  AVDictionary* options = nullptr;
  av_dict_set(&options, "protocol_whitelist", "file", 0);
  av_dict_set(&options, "format_whitelist", kContainers, 0);
  AVFormatContext* opened = nullptr;
  int code = avformat_open_input(&opened, ("file:" + path.string()).c_str(), nullptr, &options);
  av_dict_free(&options);
  if (code == AVERROR_INVALIDDATA && complaint.empty())
    return Error{ErrorCode::failure, "cannot read '" + path.string() + "': it is not a video or sound file of a known kind", "", ""};
  if (code < 0) return file_error("read", path, code);
  Input input(opened);
  code = avformat_find_stream_info(opened, nullptr);
  if (code < 0) return file_error("read the streams of", path, code);
  return input;
}

AVStream* find_stream(AVFormatContext& input, AVMediaType type) {
  for (unsigned i = 0; i < input.nb_streams; ++i) {
    AVStream* stream = input.streams[i];
    if (stream->codecpar->codec_type == type && (stream->disposition & AV_DISPOSITION_ATTACHED_PIC) == 0) return stream;
  }
  return nullptr;
}

PixelLayout pixel_layout(AVPixelFormat format, AVColorRange range) {
  switch (format) {
    case AV_PIX_FMT_YUVJ420P:
      return {AV_PIX_FMT_YUV420P, true};
    case AV_PIX_FMT_YUVJ422P:
      return {AV_PIX_FMT_YUV422P, true};
    case AV_PIX_FMT_YUVJ444P:
      return {AV_PIX_FMT_YUV444P, true};
    case AV_PIX_FMT_YUVJ440P:
      return {AV_PIX_FMT_YUV440P, true};
    default:
      return {format, range == AVCOL_RANGE_JPEG};
  }
}

}  // namespace tritium::av
