#include "fetch/address.h"

#include <curl/curl.h>
#include <algorithm>
#include <memory>

namespace tritium::fetch {
namespace {

using Handle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

Handle parsed(const std::string& url) {
  Handle handle(curl_url(), &curl_url_cleanup);
  if (handle && curl_url_set(handle.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) handle.reset();
  return handle;
}

std::string part(const Handle& handle, CURLUPart what, unsigned int flags = 0) {
  char* text = nullptr;
  if (curl_url_get(handle.get(), what, &text, flags) != CURLUE_OK) return "";
  std::string out = text;
  curl_free(text);
  return out;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

bool Origin::is_loopback() const {
  if (host == "localhost" || host == "[::1]") return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;  // not "127.evil.example"
}

std::optional<Origin> origin_of(const std::string& url) {
  const Handle handle = parsed(url);
  if (!handle) return std::nullopt;
  Origin out{lower(part(handle, CURLUPART_SCHEME)), lower(part(handle, CURLUPART_HOST)), part(handle, CURLUPART_PORT, CURLU_DEFAULT_PORT)};
  if ((out.scheme != "http" && out.scheme != "https") || out.host.empty()) return std::nullopt;
  return out;
}

std::string shown(const std::string& url) {
  const Handle handle = parsed(url);
  if (!handle) return "(not an address)";
  for (const CURLUPart secret : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY, CURLUPART_FRAGMENT})
    curl_url_set(handle.get(), secret, nullptr, 0);
  return part(handle, CURLUPART_URL);
}

bool Token::may_go_to(const std::string& url) const {
  const auto origin = origin_of(url);
  if (value.empty() || !origin || (origin->scheme != "https" && !origin->is_loopback())) return false;
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    const std::string wanted = lower(host);
    return wanted == origin->host + ":" + origin->port || (wanted == origin->host && (origin->port == "443" || origin->is_loopback()));
  });
}

}  // namespace tritium::fetch
