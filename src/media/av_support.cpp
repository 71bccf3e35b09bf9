#include "media/av_support.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <mutex>

namespace tritium::av {
namespace {

thread_local std::string complaint;

// No single block above this is given to libav, whatever a header asks for: the largest picture read here needs 512 MiB.
constexpr std::size_t kLargestBlock = 1u << 30;

void keep_line(void*, int level, const char* format, va_list arguments) {
  if (level > AV_LOG_ERROR) return;
  std::array<char, 512> line{};
  std::vsnprintf(line.data(), line.size(), format, arguments);
  std::string text = line.data();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  // Parts of a hostile file may be quoted in it.
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
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
  std::call_once(once, [] {
    av_log_set_callback(keep_line);
    av_max_alloc(kLargestBlock);
  });
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
