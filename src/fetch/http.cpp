#include "fetch/http.h"

#include "base/system.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <mutex>

namespace tritium::fetch {
namespace {

constexpr int kMaxRedirects = 10;
constexpr long kConnectSeconds = 30;
constexpr long kReceiveBuffer = 256 << 10;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<std::uint64_t> number(std::string_view text) {
  text = trimmed(text);
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "bytes 0-99/1000", "bytes 0-99/*", "bytes */1000"
void read_content_range(std::string_view text, HttpHead& head) {
  if (!text.starts_with("bytes")) return;
  text = trimmed(text.substr(5));
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return;
  head.total = number(text.substr(slash + 1));
  const std::string_view span = text.substr(0, slash);
  const std::size_t dash = span.find('-');
  if (dash == std::string_view::npos) return;
  const auto first = number(span.substr(0, dash)), last = number(span.substr(dash + 1));
  if (first && last && *last >= *first && *last < std::uint64_t(-1)) head.range = ByteRange{*first, *last + 1};
}

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return (x >= 'A' && x <= 'Z' ? x + 32 : x) == y; });
}

bool is_success(int status) { return status == 200 || status == 206; }

// Failures that another try does not mend.
bool is_hopeless(CURLcode code) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      return true;
    default:
      return false;
  }
}

}  // namespace

void read_header_line(std::string_view line, HttpHead& head) {
  if (line.starts_with("HTTP/")) {  // of each answer in turn: 100 Continue may come before the real one
    head = {};
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos) head.status = static_cast<int>(number(line.substr(space + 1, 3)).value_or(0));
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
  if (same_name(name, "etag")) head.identity = value;
  if (same_name(name, "last-modified") && head.identity.empty()) head.identity = fmt::format("changed {}", value);
  if (same_name(name, "content-length")) head.length = number(value);
  if (same_name(name, "content-encoding")) head.encoding = value;
  if (same_name(name, "content-range")) read_content_range(value, head);
}

struct HttpClient::Transfer {
  const HttpHandlers* handlers = nullptr;
  bool head_only = false;
  HttpHead head;
  bool stopped = false, aborted = false, stalled = false;
  double last_data = 0, stall_seconds = 0;
  std::uint64_t unwanted = 0;  // bytes of an error page

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self) {
    return static_cast<Transfer*>(self)->header(std::string_view(data, size * count)) ? size * count : 0;
  }
  static std::size_t on_data(char* data, std::size_t size, std::size_t count, void* self) {
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(data), size * count);
    return static_cast<Transfer*>(self)->body(bytes) ? size * count : 0;
  }
  static int on_tick(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) { return static_cast<Transfer*>(self)->tick() ? 0 : 1; }

  bool header(std::string_view line) {
    last_data = monotonic_seconds();
    if (!trimmed(line).empty()) {
      read_header_line(line, head);
    } else if (is_success(head.status)) {
      if (head.status == 200 && !head.total) head.total = head.length;
      if (!head_only && handlers->head && !handlers->head(head)) stopped = true;
    }
    return !stopped;
  }
  bool body(std::span<const std::uint8_t> bytes) {
    if (!is_success(head.status)) {
      unwanted += bytes.size();
      if (unwanted > (1u << 20)) stopped = true;
    } else if (!handlers->data || !handlers->data(bytes)) {
      stopped = true;
    }
    last_data = monotonic_seconds();  // after the handler, which may have waited to keep to a rate
    return !stopped;
  }
  bool tick() {
    if (handlers->keep_going && !handlers->keep_going()) aborted = true;
    if (monotonic_seconds() - last_data > stall_seconds) stalled = true;
    return !aborted && !stalled;
  }
};

struct HttpClient::Handle {
  CURL* curl = nullptr;
  curl_slist* headers = nullptr;
  char message[CURL_ERROR_SIZE] = {};
  Handle() {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    curl = curl_easy_init();
  }
  ~Handle() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  void set_headers(const std::vector<std::string>& lines) {
    curl_slist_free_all(headers);
    headers = nullptr;
    for (const std::string& line : lines) headers = curl_slist_append(headers, line.c_str());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  }
};

HttpClient::HttpClient(HttpSettings settings) : settings_(std::move(settings)), handle_(std::make_unique<Handle>()) {}
HttpClient::~HttpClient() = default;

HttpOutcome HttpClient::run(const HttpRequest& request, const HttpHandlers& handlers) {
  std::string url = request.url;
  const auto first = origin_of(url);
  const bool token = settings_.token.may_go_to(url);
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    std::string redirect;
    const auto origin = origin_of(url);
    const bool with_token = token && origin == first;
    HttpOutcome outcome = run_once(request, url, with_token, handlers, redirect);
    outcome.token_sent = token;
    if (redirect.empty()) return outcome;
    const auto next = origin_of(redirect);
    if (!next || (origin && origin->scheme == "https" && next->scheme != "https")) {
      outcome.ending = Ending::refused;
      outcome.message = fmt::format("redirected to '{}', which is not followed", shown(redirect));
      return outcome;
    }
    url = redirect;
  }
  HttpOutcome out;
  out.ending = Ending::refused;
  out.message = fmt::format("more than {} redirects", kMaxRedirects);
  return out;
}

HttpOutcome HttpClient::run_once(const HttpRequest& request, const std::string& url, bool with_token, const HttpHandlers& handlers,
                                 std::string& redirect) {
  CURL* curl = handle_->curl;
  HttpOutcome out;
  if (curl == nullptr) return {Ending::refused, {}, 0, false, "libcurl cannot be set up"};
  Transfer transfer;
  transfer.handlers = &handlers;
  transfer.head_only = request.head_only;
  transfer.last_data = monotonic_seconds();
  transfer.stall_seconds = settings_.stall_seconds;

  curl_easy_reset(curl);                                          // keeps connections
  std::vector<std::string> headers{"Accept-Encoding: identity"};  // offsets are those of the file itself
  if (with_token) headers.push_back("Authorization: Bearer " + settings_.token.value);
  handle_->set_headers(headers);
  handle_->message[0] = '\0';
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);  // redirects are looked at one by one
  curl_easy_setopt(curl, CURLOPT_USERAGENT, fmt::format("tritium/{}", TRITIUM_VERSION).c_str());
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, kReceiveBuffer);
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, handle_->message);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::on_data);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Transfer::on_tick);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  if (!settings_.proxy.empty()) curl_easy_setopt(curl, CURLOPT_PROXY, settings_.proxy.c_str());
  if (request.fresh) curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
  if (request.head_only) curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  if (request.range) curl_easy_setopt(curl, CURLOPT_RANGE, fmt::format("{}-{}", request.range->first, request.range->end - 1).c_str());

  const CURLcode code = curl_easy_perform(curl);
  out.head = transfer.head;
  curl_off_t wait = 0;
  if (curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK) out.retry_after = static_cast<double>(wait);
  if (transfer.aborted) {
    out.ending = Ending::aborted;
  } else if (transfer.stopped) {
    out.ending = Ending::stopped;
  } else if (transfer.stalled) {
    out.ending = Ending::stalled;
    out.message = fmt::format("no data for {:g} s", settings_.stall_seconds);
  } else if (code != CURLE_OK) {
    out.ending = is_hopeless(code) ? Ending::refused : Ending::broken;
    out.message = handle_->message[0] != '\0' ? handle_->message : curl_easy_strerror(code);
  }
  char* location = nullptr;
  if (transfer.head.status / 100 == 3 && curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &location) == CURLE_OK && location != nullptr)
    redirect = location;
  return out;
}

}  // namespace tritium::fetch
