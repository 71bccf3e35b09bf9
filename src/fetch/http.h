// One HTTP request at a time: a range of a file, with redirects, as a value that says how it ended. The only place that knows libcurl's
// transfers.
#pragma once

#include "fetch/address.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tritium::fetch {

// [first, end) in bytes of the whole file.
struct ByteRange {
  std::uint64_t first = 0, end = 0;
  [[nodiscard]] std::uint64_t size() const { return end - first; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct HttpSettings {
  std::string proxy;          // empty: as the environment says (https_proxy, no_proxy, ...)
  Token token;                // as "Authorization: Bearer", never passed on by a redirect to another origin
  double stall_seconds = 30;  // without a byte
};

struct HttpRequest {
  std::string url;
  std::optional<ByteRange> range;
  bool head_only = false;
  bool fresh = false;  // on a new connection: the last answer on the old one was not what it said
};

// What the last answer (after redirects) says about itself.
struct HttpHead {
  int status = 0;
  std::string identity;                 // the ETag, or the time of the last change: another one means another file
  std::string encoding;                 // Content-Encoding
  std::optional<std::uint64_t> length;  // Content-Length
  std::optional<ByteRange> range;       // Content-Range, of a 206
  std::optional<std::uint64_t> total;   // the size of the whole file, from Content-Range (206, 416) or Content-Length (200)
};

enum class Ending {
  complete,  // the answer came to its end, whatever its status
  stopped,   // by a handler
  broken,    // the connection failed or broke off
  stalled,
  refused,  // will not work better next time: no such protocol, a certificate that is not trusted, endless redirects
  aborted,  // keep_going said no
};

struct HttpOutcome {
  Ending ending = Ending::complete;
  HttpHead head;
  double retry_after = 0;  // seconds the server asks to wait
  bool token_sent = false;
  std::string message;  // of broken and refused
};

struct HttpHandlers {
  std::function<bool(const HttpHead&)> head;                // once, before the data of a 200 or 206; false: stop
  std::function<bool(std::span<const std::uint8_t>)> data;  // of a 200 or 206; false: stop
  std::function<bool()> keep_going;                         // asked about once a second, and by every piece of data
};

// For one thread. Connections are kept between requests.
class HttpClient {
 public:
  explicit HttpClient(HttpSettings settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpOutcome run(const HttpRequest& request, const HttpHandlers& handlers);

 private:
  struct Transfer;
  struct Handle;
  HttpOutcome run_once(const HttpRequest& request, const std::string& url, bool with_token, const HttpHandlers& handlers,
                       std::string& redirect);

  HttpSettings settings_;
  std::unique_ptr<Handle> handle_;
};

// Header lines, for tests.
void read_header_line(std::string_view line, HttpHead& head);

}  // namespace tritium::fetch
