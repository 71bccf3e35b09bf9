// The page comes out of the program whole, may be cached where that is safe, and lets nothing in from elsewhere.
#include "server/ui/ui.h"
#include "server/ui/embedded_files.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <fstream>
#include <iterator>
#include <regex>

namespace tritium::server::ui {
namespace {

using http::HttpRequest;
using http::HttpResponse;

class Ui : public ::testing::Test {
 protected:
  Ui() { add_routes(router_); }

  // Status 404 where there is no route.
  HttpResponse get(const std::string& path, std::vector<std::pair<std::string, std::string>> headers = {}) {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.headers = std::move(headers);
    const auto match = router_.find("GET", path);
    if (match.handler == nullptr) return HttpResponse::empty(404);
    request.params = match.params;
    return (*match.handler)(request);
  }
  static std::string body(const HttpResponse& response) { return std::get<std::string>(response.body); }
  static std::string header(const HttpResponse& response, const std::string& name) {
    for (const auto& [key, value] : response.headers)
      if (key == name) return value;
    return {};
  }
  // The address of the page's script or style sheet.
  std::string asset(const std::string& ending) {
    const std::string document = body(get("/"));
    std::smatch match;
    EXPECT_TRUE(std::regex_search(document, match, std::regex("\"(/assets/[^\"]+\\." + ending + ")\""))) << document;
    return match[1];
  }

  http::Router router_;
};

std::string unzipped(const std::string& data) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  std::string out(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

TEST_F(Ui, FilesAreThoseOfTheRepository) {
  ASSERT_FALSE(embedded_files().empty());
  for (const EmbeddedFile& file : embedded_files()) {
    std::ifstream in(std::string(TRITIUM_SOURCE_DIR "/web/dist/") + file.path, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(content, std::string(reinterpret_cast<const char*>(file.data), file.bytes)) << file.path;
  }
}

TEST_F(Ui, DocumentIsServedAtItsAddressesAndNowhereElse) {
  for (const char* path : {"/", "/clips/video_1a2b"}) {
    const HttpResponse response = get(path);
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_EQ(response.content_type, "text/html; charset=utf-8");
    EXPECT_NE(body(response).find("<div id=\"page\">"), std::string::npos);
    EXPECT_EQ(header(response, "cache-control"), "no-cache");
  }
  for (const char* path : {"/index.html", "/clips", "/clips/a/b", "/anything", "/assets/", "/assets/missing.js", "/sources.sha256"})
    EXPECT_EQ(get(path).status, 404) << path;
}

TEST_F(Ui, AssetsAreKeptForEver) {
  for (const char* ending : {"js", "css", "svg"}) {
    const HttpResponse response = get(asset(ending));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(header(response, "cache-control"), "public, max-age=31536000, immutable");
    EXPECT_FALSE(body(response).empty());
  }
  EXPECT_EQ(get(asset("js")).content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(get(asset("css")).content_type, "text/css; charset=utf-8");
}

TEST_F(Ui, NothingFromElsewhereAndNothingInline) {
  const HttpResponse response = get("/");
  const std::string policy = header(response, "content-security-policy");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos) << policy;
  EXPECT_NE(policy.find("script-src 'self';"), std::string::npos) << policy;
  EXPECT_EQ(policy.find("unsafe"), std::string::npos) << policy;
  EXPECT_EQ(policy.find("http"), std::string::npos) << policy;
  const std::string document = body(response);
  EXPECT_FALSE(std::regex_search(document, std::regex("<script(?![^>]*src=)"))) << "a script within the document would be blocked";
  EXPECT_FALSE(std::regex_search(document, std::regex("(style=|<style|https?://)"))) << document;
}

TEST_F(Ui, UnchangedIsNotSentAgain) {
  for (const std::string& path : {std::string("/"), asset("js")}) {
    const std::string etag = header(get(path), "etag");
    ASSERT_EQ(etag.front(), '"');
    for (const std::string& known : {etag, "\"other\", " + etag, std::string("*")}) {
      const HttpResponse response = get(path, {{"if-none-match", known}});
      EXPECT_EQ(response.status, 304) << known;
      EXPECT_EQ(header(response, "etag"), etag);
      EXPECT_TRUE(body(response).empty());
    }
    EXPECT_EQ(get(path, {{"if-none-match", "\"other\""}}).status, 200);
  }
}

TEST_F(Ui, CompressedWhereTheBrowserSaysSo) {
  const std::string path = asset("js"), plain = body(get(path));
  for (const char* accepted : {"gzip", "br;q=1, gzip;q=0.5", "deflate, gzip"}) {
    const HttpResponse response = get(path, {{"accept-encoding", accepted}});
    EXPECT_EQ(header(response, "content-encoding"), "gzip") << accepted;
    EXPECT_LT(body(response).size(), plain.size() / 2);
    EXPECT_EQ(unzipped(body(response)), plain);
    EXPECT_NE(header(response, "etag"), header(get(path), "etag"));
    EXPECT_EQ(header(response, "vary"), "accept-encoding");
  }
  for (const char* refused : {"", "br", "gzip;q=0", "gzip;q=0.0, br", "xgzip"})
    EXPECT_EQ(header(get(path, {{"accept-encoding", refused}}), "content-encoding"), "") << refused;
}

TEST_F(Ui, WholePageIsSmall) {
  std::size_t bytes = 0;
  for (const std::string& path : {std::string("/"), asset("js"), asset("css"), asset("svg")})
    bytes += body(get(path, {{"accept-encoding", "gzip"}})).size();
  EXPECT_LT(bytes, 150u << 10);
  EXPECT_GT(bytes, 10u << 10);
}

}  // namespace
}  // namespace tritium::server::ui
