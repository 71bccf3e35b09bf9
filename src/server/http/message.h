// Requests and responses as handlers see them: no socket, no library types.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tritium::http {

// A field of a multipart form. Files lie in a temporary file that is removed when the request's handler has returned.
struct FormField {
  std::string name;
  std::string value;  // of a field that is not a file
  bool is_file = false;
  std::string file_name;  // as the client calls it, never a path to be used
  std::string content_type;
  std::filesystem::path file;
  std::uint64_t bytes = 0;
};

struct HttpRequest {
  std::string method;                                        // "GET", ...; HEAD comes as HEAD
  std::string path;                                          // decoded, without the query
  std::map<std::string, std::string> params;                 // of the route: {id}
  std::vector<std::pair<std::string, std::string>> query;    // decoded, in order
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;                                          // of everything but multipart forms
  std::vector<FormField> form;                               // of multipart/form-data and application/x-www-form-urlencoded
  bool is_form = false;
  std::string id;      // "req_...", in every log line and in the header x-request-id of the answer
  std::string owner;   // name of the API key; empty where none are used
  std::string remote;  // address of the client

  [[nodiscard]] std::string_view header(std::string_view lower_case_name) const;      // empty when absent
  [[nodiscard]] std::optional<std::string> query_value(std::string_view name) const;  // the first
};

// A file that is sent as it lies there, with Range, If-Range, If-None-Match, HEAD. It must not change any more.
struct FileBody {
  std::filesystem::path file;
  std::string etag;           // without quotes; empty: none
  std::string download_name;  // empty: shown in the browser
};

// An answer without an end. All functions may be called from any thread. Lasts as long as somebody holds it and the client is there.
class Stream {
 public:
  virtual ~Stream() = default;
  // False when the client is gone or is more than a mebibyte behind; the stream is closed then.
  virtual bool write(std::string bytes) = 0;
  virtual void close() = 0;
  [[nodiscard]] virtual bool closed() const = 0;
  virtual void on_close(std::function<void()> callback) = 0;  // once; at once when it is closed already
};
struct StreamBody {
  std::function<void(std::shared_ptr<Stream>)> open;  // called when the header has been sent
};

class WebSocket {
 public:
  virtual ~WebSocket() = default;
  virtual bool send_text(std::string text) = 0;  // false as Stream::write
  virtual bool send_binary(std::string bytes) = 0;
  virtual void close() = 0;
  virtual void on_text(std::function<void(const std::string&)> callback) = 0;
  virtual void on_close(std::function<void()> callback) = 0;
};
struct WebSocketBody {
  std::function<void(std::shared_ptr<WebSocket>)> open;
};

struct HttpResponse {
  int status = 200;
  std::string content_type;  // empty: none
  std::vector<std::pair<std::string, std::string>> headers;
  std::variant<std::string, FileBody, StreamBody, WebSocketBody> body;

  static HttpResponse json(int status, std::string document);
  static HttpResponse text(int status, std::string text);
  static HttpResponse file(std::filesystem::path file, std::string content_type, std::string etag = {}, std::string download_name = {});
  static HttpResponse event_stream(std::function<void(std::shared_ptr<Stream>)> open);
  static HttpResponse web_socket(std::function<void(std::shared_ptr<WebSocket>)> open);
  static HttpResponse empty(int status);
};

// 400 usage, 404 not_found, 409 conflict, 422 does_not_fit, 429 or 503 busy, 500 the rest.
int http_status_of(const Error& error);

}  // namespace tritium::http
