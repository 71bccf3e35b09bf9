// Addresses of results. With API keys in use they carry a signature and the time until which it is good, because players and downloaders
// send no keys.
#pragma once

#include "server/http/message.h"
#include "server/minimax/minimax.h"

namespace tritium::server::minimax {

class Links {
 public:
  // Reads or makes the key. Without one (a folder that cannot be written) links are good until the process ends.
  Links(const std::filesystem::path& folder, const Options& options);

  // What stands in front of links: "http://host:8000", as the request named the server.
  [[nodiscard]] std::string base_of(const http::HttpRequest& request) const;
  // "BASE/v2/download/ID/video.mp4", with "?owner=...&expires=...&signature=..." where links are signed.
  [[nodiscard]] std::string address(const std::string& base, const std::string& id, const std::string& owner, std::int64_t now) const;

  // Whose job a request for such an address may see. Error (usage, field "signature"): none, wrong or over.
  [[nodiscard]] Result<std::string> owner_of(const http::HttpRequest& request, const std::string& id, std::int64_t now) const;

 private:
  [[nodiscard]] std::string signature(const std::string& id, const std::string& owner, const std::string& expires) const;

  std::string key_, public_url_;
  bool https_, signed_;
  std::int64_t seconds_;
};

// RFC 2104 with SHA-256, lower-case hexadecimal.
std::string hmac_sha256(const std::string& key, const std::string& message);

}  // namespace tritium::server::minimax
