#include "server/input/url_fetch.h"

#include "base/system.h"
#include "base/try.h"
#include "fetch/address.h"
#include "server/input/address_check.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <algorithm>
#include <mutex>

namespace tritium::server {
namespace {

constexpr int kMaxRedirects = 5;
constexpr long kConnectMilliseconds = 10'000;
constexpr long kStallSeconds = 20;

Error usage(std::string message, std::string hint = "") { return {ErrorCode::usage, std::move(message), "", std::move(hint)}; }

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

bool is_listed(const fetch::Origin& origin, const UrlPolicy& policy) {
  return std::any_of(policy.hosts.begin(), policy.hosts.end(), [&](const std::string& host) {
    const std::string wanted = lower(host);
    return wanted == origin.host || wanted == origin.host + ":" + origin.port;
  });
}

// One request.
struct Transfer {
  bool listed = false;
  bool refused_address = false, too_large = false;
  std::uint64_t limit = 0, bytes = 0;
  long status = 0;
  CURL* curl = nullptr;
  const std::function<Result<void>(std::string_view)>* sink = nullptr;
  Result<void> sunk;

  static curl_socket_t open(void* self, curlsocktype, curl_sockaddr* address) {
    return static_cast<Transfer*>(self)->open_socket(*address);
  }
  static std::size_t data(char* bytes, std::size_t size, std::size_t count, void* self) {
    return static_cast<Transfer*>(self)->take({bytes, size * count}) ? size * count : 0;
  }

  curl_socket_t open_socket(const curl_sockaddr& address) {
    const auto target = network_address(address.addr);
    if (!target || (!listed && !is_public(*target))) {
      refused_address = true;
      return CURL_SOCKET_BAD;
    }
    return ::socket(address.family, address.socktype | SOCK_CLOEXEC, address.protocol);
  }
  bool take(std::string_view piece) {
    if (status == 0) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (status / 100 != 2) return status / 100 == 3;  // the page of an error is of no use
    bytes += piece.size();
    too_large = bytes > limit;
    if (too_large) return false;
    sunk = (*sink)(piece);
    return sunk.ok();
  }
};

struct CurlHandle {
  CURL* curl = nullptr;
  CurlHandle() {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    curl = curl_easy_init();
  }
  ~CurlHandle() { curl_easy_cleanup(curl); }
  CurlHandle(const CurlHandle&) = delete;
  CurlHandle& operator=(const CurlHandle&) = delete;
};

Error too_large(const std::string& shown, std::uint64_t limit) {
  return usage(fmt::format("'{}' is larger than the limit of {}", shown, format_bytes(limit)));
}

void prepare(CURL* curl, const std::string& url, Transfer& transfer, double seconds) {
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);  // redirects are looked at one by one
  curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);   // a connection that is kept was allowed for another address, perhaps
  curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "tritium");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, kConnectMilliseconds);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, std::max(1L, static_cast<long>(seconds * 1e3)));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(transfer.limit));
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, &Transfer::open);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::data);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
}

// What a failed transfer is told as.
Error failure_of(CURLcode code, const Transfer& transfer, const std::string& shown, const UrlPolicy& policy) {
  if (!transfer.sunk.ok()) return transfer.sunk.error();
  if (transfer.too_large || code == CURLE_FILESIZE_EXCEEDED) return too_large(shown, policy.max_bytes);
  if (transfer.refused_address)
    return usage(fmt::format("'{}' is not an address of the public internet", shown),
                 "the server's operator can list the host with --allow-url-host");
  if (code == CURLE_OPERATION_TIMEDOUT) return usage(fmt::format("'{}' did not come within {:g} s", shown, policy.max_seconds));
  return usage(fmt::format("'{}' cannot be fetched: {}", shown, curl_easy_strerror(code)));
}

// Fills `redirect` instead of giving content when the answer is one.
Result<FetchedUrl> fetch_once(CURL* curl, const std::string& url, const UrlPolicy& policy, double seconds,
                              const std::function<Result<void>(std::string_view)>& sink, std::string& redirect) {
  const std::string shown = fetch::shown(url);
  const auto origin = fetch::origin_of(url);
  if (!origin) return usage(fmt::format("'{}' is not an address that begins with http:// or https://", shown));
  if (seconds <= 0) return failure_of(CURLE_OPERATION_TIMEDOUT, {}, shown, policy);
  Transfer transfer;
  transfer.listed = is_listed(*origin, policy);
  transfer.limit = policy.max_bytes;
  transfer.curl = curl;
  transfer.sink = &sink;
  prepare(curl, url, transfer, seconds);
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.status);
  char* text = nullptr;
  if (transfer.status / 100 == 3 && curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &text) == CURLE_OK && text != nullptr) {
    redirect = text;
    return FetchedUrl{};
  }
  if (transfer.status != 0 && transfer.status != 200) return usage(fmt::format("'{}' was answered with status {}", shown, transfer.status));
  if (code != CURLE_OK) return failure_of(code, transfer, shown, policy);
  if (transfer.bytes == 0) return usage(fmt::format("'{}' is empty", shown));
  FetchedUrl out{"", transfer.bytes};
  if (curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &text) == CURLE_OK && text != nullptr) out.content_type = text;
  return out;
}

struct HeaderList {
  curl_slist* list = nullptr;
  explicit HeaderList(const char* line) : list(curl_slist_append(nullptr, line)) {}
  ~HeaderList() { curl_slist_free_all(list); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
};

}  // namespace

Result<std::string> post_json(const std::string& url, const UrlPolicy& policy, const std::string& document, double max_seconds) {
  constexpr std::uint64_t kMaxAnswer = 64u << 10;
  const std::string shown = fetch::shown(url);
  const auto origin = fetch::origin_of(url);
  if (!origin) return usage(fmt::format("'{}' is not an address that begins with http:// or https://", shown));
  const CurlHandle handle;
  const HeaderList headers("Content-Type: application/json");
  if (handle.curl == nullptr || headers.list == nullptr) return Error{ErrorCode::failure, "libcurl cannot be set up", "", ""};
  std::string answer;
  const std::function<Result<void>(std::string_view)> sink = [&](std::string_view piece) -> Result<void> {
    answer += piece;
    return {};
  };
  Transfer transfer;
  transfer.listed = is_listed(*origin, policy);
  transfer.limit = kMaxAnswer;
  transfer.curl = handle.curl;
  transfer.sink = &sink;
  prepare(handle.curl, url, transfer, max_seconds);
  curl_easy_setopt(handle.curl, CURLOPT_POST, 1L);
  curl_easy_setopt(handle.curl, CURLOPT_POSTFIELDS, document.c_str());
  curl_easy_setopt(handle.curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(document.size()));
  curl_easy_setopt(handle.curl, CURLOPT_HTTPHEADER, headers.list);
  const CURLcode code = curl_easy_perform(handle.curl);
  curl_easy_getinfo(handle.curl, CURLINFO_RESPONSE_CODE, &transfer.status);
  if (transfer.status != 0 && transfer.status / 100 != 2)
    return usage(fmt::format("'{}' was answered with status {}", shown, transfer.status));
  if (code == CURLE_OPERATION_TIMEDOUT) return usage(fmt::format("'{}' did not answer within {:g} s", shown, max_seconds));
  if (code != CURLE_OK) return failure_of(code, transfer, shown, policy);
  return answer;
}

Result<FetchedUrl> fetch_url(const std::string& url, const UrlPolicy& policy, const std::function<Result<void>(std::string_view)>& sink) {
  const CurlHandle handle;
  if (handle.curl == nullptr) return Error{ErrorCode::failure, "libcurl cannot be set up", "", ""};
  const double end = monotonic_seconds() + policy.max_seconds;
  std::string current = url;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    std::string redirect;
    TRITIUM_TRY_ASSIGN(FetchedUrl out, fetch_once(handle.curl, current, policy, end - monotonic_seconds(), sink, redirect));
    if (redirect.empty()) return out;
    const auto from = fetch::origin_of(current), to = fetch::origin_of(redirect);
    if (!to || (from && from->scheme == "https" && to->scheme != "https"))
      return usage(fmt::format("'{}' redirects to '{}', which is not followed", fetch::shown(current), fetch::shown(redirect)));
    current = redirect;
  }
  return usage(fmt::format("'{}' redirects more than {} times", fetch::shown(url), kMaxRedirects));
}

}  // namespace tritium::server
