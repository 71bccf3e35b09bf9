// Where the body of a request goes while it comes in: memory, or the fields of a form with files in the spool folder.
#pragma once

#include "server/http/options.h"

#include <atomic>

namespace tritium::http {

// An error with the status it is answered with.
struct Refusal {
  int status = 500;
  Error error;
};

// Bytes of requests that lie in memory, over all connections.
class MemoryShare {
 public:
  MemoryShare(std::atomic<std::uint64_t>& used, std::uint64_t limit) : used_(used), limit_(limit) {}
  ~MemoryShare() { used_ -= own_; }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;
  bool take(std::uint64_t bytes);

 private:
  std::atomic<std::uint64_t>& used_;
  std::uint64_t limit_, own_ = 0;
};

// Files of a form; removed with this object, unless they have been moved away.
class SpooledFiles {
 public:
  SpooledFiles() = default;
  ~SpooledFiles();
  SpooledFiles(const SpooledFiles&) = delete;
  SpooledFiles& operator=(const SpooledFiles&) = delete;
  void add(std::filesystem::path file) { files_.push_back(std::move(file)); }

 private:
  std::vector<std::filesystem::path> files_;
};

// What a request keeps until its handler has returned.
struct RequestHoldings {
  explicit RequestHoldings(std::atomic<std::uint64_t>& used, std::uint64_t limit) : memory(used, limit) {}
  MemoryShare memory;
  SpooledFiles files;
};

class BodyReader {
 public:
  virtual ~BodyReader() = default;
  virtual std::optional<Refusal> write(std::string_view bytes) = 0;
  virtual std::optional<Refusal> finish() = 0;  // the body has come to its end
};

// For the content type of `request`, whose body and form are filled. Error: 400 or 415, the content type cannot be used. Everything named
// must outlive the reader.
struct OpenedBody {
  std::unique_ptr<BodyReader> reader;
  std::optional<Refusal> refusal;
};
OpenedBody open_body(HttpRequest& request, RequestHoldings& holdings, const ServerOptions& options);

// 413, naming size and limit.
Refusal too_large(std::string_view what, std::uint64_t limit);

}  // namespace tritium::http
