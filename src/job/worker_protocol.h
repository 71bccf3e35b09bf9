// What a worker process and its caller say to each other: frames on a stream of bytes, each a header and a JSON document.
//
//   bytes 0..2  "TrW"
//   byte  3     type
//   bytes 4..7  length of the document, little endian, at most kMaxFrameBytes
//   then        the document (worker_codec.h); of `preview` a JPEG
//
// The worker speaks first, with `hello`. The caller answers with its own `hello` and with `open`. From then on the caller sends one request
// at a time and the worker answers each with exactly one final frame:
//
//   open      ->  opened | failed
//   plan      ->  planned | failed
//   generate  ->  planned, progress | preview ..., then done | failed
//   cancel    ->  nothing of its own: the request that runs ends with failed (interrupted), unless it was just done
//
// The end of the stream tells the worker to end.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tritium {

// Counts changes of the frames. Documents are tied to the version of the program, which is compared too.
constexpr int kWorkerProtocol = 2;

enum class FrameType : std::uint8_t { hello = 1, open, plan, generate, cancel, opened, planned, progress, done, failed, preview };
constexpr FrameType kLastFrameType = FrameType::preview;

struct WorkerFrame {
  FrameType type = FrameType::hello;
  std::string body;
};

constexpr std::size_t kFrameHeaderBytes = 8;
constexpr std::uint32_t kMaxFrameBytes = std::uint32_t{256} << 20;  // several times the longest prompt

// Error (usage): a document above the limit.
Result<std::string> encode_frame(FrameType type, std::string_view body);

// Cuts a stream into frames, however it arrives. Memory grows with what has arrived, never with what a header announces.
class FrameReader {
 public:
  void feed(std::string_view bytes);
  // The next whole frame; none while bytes are missing. Error (failure): this is no stream of frames; it stays so.
  Result<std::optional<WorkerFrame>> next();
  // Whether a frame was begun and is not complete.
  [[nodiscard]] bool inside_frame() const { return start_ < buffer_.size(); }

 private:
  std::string buffer_;
  std::size_t start_ = 0;  // of the first frame not yet handed out
  std::optional<Error> broken_;
};

// Body of `hello`, and its check. Error (failure) names both versions.
std::string hello_body();
Result<void> check_hello(const WorkerFrame& frame);

}  // namespace tritium
