// Reads little-endian values off the front of a file, through a small buffer.
#pragma once

#include "base/try.h"
#include "weights/gguf.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstring>

namespace tritium {

class GgufCursor {
 public:
  // Nothing beyond `limit` is read: longer headers are refused.
  GgufCursor(const ByteSource& source, std::uint64_t file_bytes, std::uint64_t limit)
      : source_(source), end_(std::min(file_bytes, limit)), limited_(limit < file_bytes) {}

  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t left() const { return end_ - position_; }

  // Every function below fails at the end of the file; `what` names the value in that error.
  Result<void> need(std::uint64_t bytes, std::string_view what) const {
    if (bytes <= left()) return {};
    if (limited_) return Error{ErrorCode::model, fmt::format("its header is longer than the limit of {} bytes ({})", end_, what), "", ""};
    return Error{ErrorCode::model,
                 fmt::format("the file is truncated or damaged: {} needs {} bytes, {} are left at byte {}", what, bytes, left(), position_),
                 "", ""};
  }

  template <class T>
  Result<T> number(std::string_view what) {
    std::array<std::uint8_t, sizeof(T)> bytes;
    TRITIUM_TRY(take(bytes, what));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  // u64 length and bytes.
  Result<std::string> string(std::uint64_t limit, std::string_view what) {
    TRITIUM_TRY_ASSIGN(const std::uint64_t length, number<std::uint64_t>(what));
    if (length > limit)
      return Error{ErrorCode::model, fmt::format("{} has a length of {} bytes, the limit is {}", what, length, limit), "", ""};
    TRITIUM_TRY(need(length, what));
    std::string text(static_cast<std::size_t>(length), '\0');
    TRITIUM_TRY(take(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()), what));
    return text;
  }

  Result<void> skip(std::uint64_t bytes, std::string_view what) {
    TRITIUM_TRY(need(bytes, what));
    position_ += bytes;
    return {};
  }

  Result<void> take(std::span<std::uint8_t> out, std::string_view what) {
    TRITIUM_TRY(need(out.size(), what));
    while (!out.empty()) {
      if (position_ < buffer_start_ || position_ >= buffer_start_ + buffer_.size()) TRITIUM_TRY(fill());
      const std::size_t at = static_cast<std::size_t>(position_ - buffer_start_), count = std::min(out.size(), buffer_.size() - at);
      std::memcpy(out.data(), buffer_.data() + at, count);
      out = out.subspan(count);
      position_ += count;
    }
    return {};
  }

 private:
  static constexpr std::uint64_t kBufferBytes = 64u << 10;

  Result<void> fill() {
    buffer_start_ = position_;
    buffer_.resize(static_cast<std::size_t>(std::min(kBufferBytes, left())));
    return source_(buffer_start_, buffer_);
  }

  const ByteSource& source_;
  std::uint64_t end_, position_ = 0, buffer_start_ = 0;
  bool limited_;
  std::vector<std::uint8_t> buffer_;
};

}  // namespace tritium
