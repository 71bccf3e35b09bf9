#include "server/ui/ui.h"

#include "server/ui/embedded_files.h"

#include <fmt/format.h>
#include <zlib.h>

namespace tritium::server::ui {

using http::HttpRequest;
using http::HttpResponse;

namespace {

// web/mock/server.mjs sends the same, so that tests against it break where this would.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr const char* kForEver = "public, max-age=31536000, immutable";
constexpr const char* kAskEveryTime = "no-cache";

struct Page {
  std::string content, compressed;  // the latter empty where it would save nothing
  std::string content_type, etag, cache_control;
};

std::string content_type_of(std::string_view path) {
  constexpr std::pair<std::string_view, const char*> kTypes[] = {{".html", "text/html; charset=utf-8"},
                                                                 {".js", "text/javascript; charset=utf-8"},
                                                                 {".css", "text/css; charset=utf-8"},
                                                                 {".svg", "image/svg+xml"},
                                                                 {".txt", "text/plain; charset=utf-8"}};
  for (const auto& [ending, type] : kTypes)
    if (path.ends_with(ending)) return type;
  return "application/octet-stream";
}

// gzip; empty on failure.
std::string compressed(std::string_view content) {
  constexpr int kGzip = 16 + MAX_WBITS;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::string out(deflateBound(&stream, static_cast<uLong>(content.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(result == Z_STREAM_END ? stream.total_out : 0);
  deflateEnd(&stream);
  return out;
}

std::shared_ptr<const Page> page_of(const EmbeddedFile& file) {
  const std::string_view path = file.path;
  auto page = std::make_shared<Page>();
  page->content.assign(reinterpret_cast<const char*>(file.data), file.bytes);
  page->compressed = compressed(page->content);
  if (page->compressed.size() >= page->content.size()) page->compressed.clear();
  page->content_type = content_type_of(path);
  page->etag = std::string(file.sha256).substr(0, 32);
  page->cache_control = path.starts_with("assets/") ? kForEver : kAskEveryTime;
  return page;
}

// Whether a header field such as "gzip, br;q=0.8, *;q=0" takes gzip.
bool takes_gzip(std::string_view accepted) {
  while (!accepted.empty()) {
    const std::size_t comma = accepted.find(',');
    std::string_view entry = accepted.substr(0, comma);
    accepted = comma == std::string_view::npos ? std::string_view() : accepted.substr(comma + 1);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    if (!entry.starts_with("gzip")) continue;
    entry.remove_prefix(4);
    const std::size_t quality = entry.find("q=");
    if (entry.empty() || entry.front() == ';' || entry.front() == ' ')
      return quality == std::string_view::npos || entry.substr(quality + 2).find_first_of("123456789") != std::string_view::npos;
  }
  return false;
}

HttpResponse answer(const Page& page, const HttpRequest& request) {
  const bool gzip = !page.compressed.empty() && takes_gzip(request.header("accept-encoding"));
  const std::string etag = fmt::format("\"{}{}\"", page.etag, gzip ? "-gzip" : "");
  const std::string_view known = request.header("if-none-match");
  const bool unchanged = known == "*" || known.find(etag) != std::string_view::npos;
  HttpResponse out = unchanged ? HttpResponse::empty(304) : HttpResponse::text(200, gzip ? page.compressed : page.content);
  out.content_type = unchanged ? "" : page.content_type;
  out.headers = {{"etag", etag},
                 {"cache-control", page.cache_control},
                 {"vary", "accept-encoding"},
                 {"content-security-policy", kContentPolicy},
                 {"referrer-policy", "no-referrer"},
                 {"cross-origin-opener-policy", "same-origin"},
                 {"permissions-policy", "camera=(), microphone=(), geolocation=()"}};
  if (gzip && !unchanged) out.headers.emplace_back("content-encoding", "gzip");
  return out;
}

// What is in the repository for its own checks and is of no use to browsers.
bool is_served(std::string_view path) { return path != "sources.sha256"; }

}  // namespace

void add_routes(http::Router& router) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (!is_served(file.path)) continue;
    const auto page = page_of(file);
    const auto handler = [page](const HttpRequest& request) { return answer(*page, request); };
    if (std::string_view(file.path) == "index.html") {
      router.add("GET", "/", handler);
      router.add("GET", "/clips/{id}", handler);
    } else {
      router.add("GET", "/" + std::string(file.path), handler);
    }
  }
}

std::vector<std::string> public_paths() { return {"/", "/clips/*", "/assets/*", "/third-party.txt"}; }

}  // namespace tritium::server::ui
