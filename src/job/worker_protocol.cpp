#include "job/worker_protocol.h"

#include "base/try.h"
#include "job/worker_codec.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>

namespace tritium {
namespace {

constexpr std::string_view kMagic = "TrW";

// Enough of what came instead to recognise it.
std::string excerpt(std::string_view bytes) {
  constexpr std::size_t kShown = 40;
  std::string out;
  for (const char c : bytes.substr(0, kShown)) out += std::isprint(static_cast<unsigned char>(c)) != 0 ? c : '.';
  return out;
}

Error no_frame(std::string_view bytes, const std::string& why) {
  return Error{ErrorCode::failure, fmt::format("what arrived is no message of a worker: {} ('{}')", why, excerpt(bytes)), "", ""};
}

std::uint32_t length_of(std::string_view header) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i) out |= std::uint32_t{static_cast<std::uint8_t>(header[4 + i])} << (8 * i);
  return out;
}

// Complains as early as possible: garbage is rarely long enough for a whole header.
std::optional<Error> check_header(std::string_view bytes) {
  const std::size_t known = std::min(bytes.size(), kMagic.size());
  if (bytes.substr(0, known) != kMagic.substr(0, known)) return no_frame(bytes, "it does not begin like one");
  if (bytes.size() > kMagic.size()) {
    const auto type = static_cast<std::uint8_t>(bytes[kMagic.size()]);
    if (type == 0 || type > static_cast<std::uint8_t>(kLastFrameType)) return no_frame(bytes, fmt::format("there is no type {}", type));
  }
  if (bytes.size() >= kFrameHeaderBytes && length_of(bytes) > kMaxFrameBytes)
    return no_frame(bytes, fmt::format("it announces {} bytes, at most {} are allowed", length_of(bytes), kMaxFrameBytes));
  return {};
}

}  // namespace

Result<std::string> encode_frame(FrameType type, std::string_view body) {
  if (body.size() > kMaxFrameBytes)
    return Error{
        ErrorCode::usage,
        fmt::format("the request takes {} bytes on its way to the worker process, at most {} are possible", body.size(), kMaxFrameBytes),
        "", "shorten the prompt"};
  std::string out(kMagic);
  out += static_cast<char>(type);
  for (int i = 0; i < 4; ++i) out += static_cast<char>((body.size() >> (8 * i)) & 0xff);
  out += body;
  return out;
}

void FrameReader::feed(std::string_view bytes) {
  if (broken_) return;
  buffer_.erase(0, start_);
  start_ = 0;
  buffer_ += bytes;
}

Result<std::optional<WorkerFrame>> FrameReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(start_);
  if (!broken_) broken_ = check_header(rest);
  if (broken_) return *broken_;
  if (rest.size() < kFrameHeaderBytes || rest.size() - kFrameHeaderBytes < length_of(rest)) return std::optional<WorkerFrame>();
  WorkerFrame frame{static_cast<FrameType>(rest[kMagic.size()]), std::string(rest.substr(kFrameHeaderBytes, length_of(rest)))};
  start_ += kFrameHeaderBytes + frame.body.size();
  return std::optional<WorkerFrame>(std::move(frame));
}

std::string hello_body() { return encode_message(HelloMessage{kWorkerProtocol, version()}); }

Result<void> check_hello(const WorkerFrame& frame) {
  if (frame.type != FrameType::hello) return Error{ErrorCode::failure, "the first message gives no version", "", ""};
  TRITIUM_TRY_ASSIGN(const HelloMessage hello, decode_message<HelloMessage>(frame.body));
  if (hello.protocol == kWorkerProtocol && hello.version == version()) return {};
  return Error{ErrorCode::failure,
               fmt::format("worker and caller do not belong together: version {} with protocol {} here, version {} with protocol {} there",
                           version(), kWorkerProtocol, hello.version, hello.protocol),
               "", "start both from one installation"};
}

}  // namespace tritium
