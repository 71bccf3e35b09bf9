// The syntax of HTTP/1 requests, in pieces of any size: header first, then the body as it comes.
#pragma once

#include "server/http/options.h"
#include "server/http/url.h"

#include <functional>

namespace tritium::http {

class RequestParser {
 public:
  enum class State {
    more,    // more bytes are needed
    header,  // the header is complete; the body follows
    done,    // the request is complete
    failed,  // see problem()
  };
  struct Problem {
    int status = 400;
    std::string message;
  };

  explicit RequestParser(const ServerLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Takes bytes from the front of `input`, which keeps what it does not use: what is unfinished, and what follows the request. Ends after
  // the header once, even if the body is there.
  State read(std::string& input);
  // Gets the body; false ends the reading as failed.
  void on_body(std::function<bool(std::string_view)> body);

  [[nodiscard]] const Problem& problem() const;
  [[nodiscard]] bool started() const;  // at least one byte has been taken or looked at
  // After the header:
  [[nodiscard]] const std::string& method() const;
  [[nodiscard]] const std::string& target() const;
  [[nodiscard]] const Pairs& fields() const;  // names in lower case; trailers of a chunked body are dropped
  [[nodiscard]] int version() const;          // 10 or 11
  [[nodiscard]] bool keep_alive() const;
  [[nodiscard]] bool has_body() const;
  [[nodiscard]] std::optional<std::uint64_t> content_length() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritium::http
