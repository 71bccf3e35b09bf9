// Pictures, videos and sounds that a request brings: as a file of a form, a data: URL, or an address that the server may fetch.
// Names of files on the server are never taken from a client.
#pragma once

#include "server/http/message.h"

namespace tritium::server {

struct UrlPolicy {
  bool allowed = false;            // http: and https: addresses at all (--allow-url-inputs)
  std::vector<std::string> hosts;  // private addresses and names that are reached all the same; "host" or "host:port"
  std::uint64_t max_bytes = 64u << 20;
  double max_seconds = 60;
};

// The inputs of one request: files in the spool folder, removed with this object. A job that was submitted has its own links by then.
class MediaInputs {
 public:
  MediaInputs(std::filesystem::path spool, UrlPolicy policy);
  ~MediaInputs();
  MediaInputs(const MediaInputs&) = delete;
  MediaInputs& operator=(const MediaInputs&) = delete;

  // `field` names it in errors. Errors: usage (not allowed, unreachable, too large, not base64, "file:" and anything else).
  Result<std::filesystem::path> from_uri(const std::string& uri, const std::string& field);
  // The file moves here.
  Result<std::filesystem::path> from_form(const http::FormField& field);

 private:
  std::filesystem::path spool_;
  UrlPolicy policy_;
  std::vector<std::filesystem::path> files_;
};

}  // namespace tritium::server
