// Thousands of requests that no honest client sends: each ends in an answer or a closed connection, and afterwards nothing is left of them.
// TRITIUM_TEST_HOSTILE: how many, default 1500.
#include "api/client.h"
#include "api/toy_server.h"
#include "base/system.h"
#include "support/build.h"

#include <gtest/gtest.h>
#include <fstream>
#include <random>

namespace {

using namespace tritium;
using namespace tritium::test;

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}
  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  std::string pick(std::initializer_list<const char*> choices) { return *(choices.begin() + below(static_cast<int>(choices.size()))); }

  std::string request() {
    std::string body = make_body();
    std::string out = pick({"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "", "G\x01T", "POST POST"}) + pick({" ", "  ", "\t"}) +
                      target() + pick({" HTTP/1.1", " HTTP/1.1", " HTTP/1.1", " HTTP/1.0", " HTTP/9.9", "", " http/1.1"}) +
                      pick({"\r\n", "\r\n", "\r\n", "\n"});
    out += pick({"Host: localhost\r\n", "Host: localhost\r\n", "Host: localhost\r\n", "Host: evil\r\n", "", "Host: a\r\nHost: b\r\n"});
    for (int i = below(4); i > 0; --i) out += field();
    out += pick({"Content-Length: ", "Content-Length: ", "Content-length:", "X: "}) + length(body.size()) + "\r\n";
    out += pick({"\r\n", "\r\n", "\r\n", "\n\n", ""});
    return mutated(out + body);
  }

 private:
  std::string target() {
    return pick({"/echo", "/echo", "/file", "/file", "/count", "/socket", "/videos/x", "/pages/a/b", "/nothing", "/throw", "*",
                 "http://localhost/echo", "//", "/..", "/%00", "/echo?%", "/echo?a=b&a", "\xff\xfe"}) +
           (below(20) == 0 ? std::string(static_cast<std::size_t>(below(12'000)), 'a') : "");
  }
  std::string field() {
    return pick({"Range: bytes=", "Range: bytes=0-", "If-None-Match: ", "If-Range: ", "Content-Type: ",
                 "Content-Type: multipart/form-data; boundary=", "Transfer-Encoding: ", "Expect: ", "Connection: ", "Upgrade: ", "Cookie: ",
                 "Authorization: Bearer ", "Origin: ", "X-Request-Id: ", "Sec-WebSocket-Key: ", " folded", ""}) +
           pick({"", "b", "chunked", "gzip, chunked", "100-continue", "0-", "-5", "5-4", "\"x", "keep-alive, close", "websocket",
                 "application/json", "application/x-www-form-urlencoded", "http://evil.example", "99999999999999999999999", "\xc3\xbc",
                 ",,,;;;==="}) +
           pick({"\r\n", "\r\n", "\r\n", "\n"});
  }
  std::string length(std::size_t size) {
    return below(3) != 0 ? std::to_string(size) : pick({"-1", "0", "99999999999999999999999", "1e3", "", "0x10", "7, 7"});
  }
  std::string make_body() {
    switch (below(6)) {
      case 0:
        return R"({"prompt": "x", "seconds": )" + pick({"1e999", "[[[[", "\"\\ud800\"", "nul", "}"});
      case 1:
        return "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n" +
               std::string(static_cast<std::size_t>(below(3000)), 'd') + pick({"\r\n--b--", "\r\n--b", "--b--", ""});
      case 2:
        return pick({"5\r\nabcde\r\n0\r\n\r\n", "5\r\nabc", "ffffffffffffffff\r\n", "-1\r\n", "0\r\nA: b\r\n\r\n", "5;\r\n"});
      case 3:
        return std::string(static_cast<std::size_t>(below(60'000)), '\r');
      default:
        return "";
    }
  }
  std::string mutated(std::string text) {
    for (int i = below(3) == 0 ? below(6) : 0; i > 0 && !text.empty(); --i)
      text[static_cast<std::size_t>(below(static_cast<int>(text.size())))] = static_cast<char>(below(256));
    if (below(8) == 0) text.resize(static_cast<std::size_t>(below(static_cast<int>(text.size()) + 1)));
    return text;
  }
  std::mt19937 random_;
};

// Bytes of this process in memory now.
std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * 4096;
}

int how_many() {
  const char* text = std::getenv("TRITIUM_TEST_HOSTILE");
  return text != nullptr ? std::atoi(text) : 1500;
}

void send_one(int port, Generator& generator) {
  Client client(port, 2);
  client.send(generator.request());
  if (generator.below(4) == 0) return;  // gone without looking at the answer
  client.finish_sending();
  const std::string answer = client.read_until("\r\n\r\n");
  EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 ")) << answer;
}

TEST(Hostile, MalformedRequestsLeaveTheServerAsItWas) {
  http::ServerOptions options;
  options.limits.header_seconds = options.limits.body_seconds = options.limits.idle_seconds = 1;
  options.limits.body_bytes = 1 << 20;
  ToyServer toy(options);
  Generator generator(20261130);
  const int count = how_many();
  for (int i = 0; i < count / 3; ++i) send_one(toy.port(), generator);
  const std::uint64_t before = resident_bytes();
  for (int i = count / 3; i < count; ++i) send_one(toy.port(), generator);
  EXPECT_TRUE(eventually([&] { return toy.server().counters().connections == 0; }));
  EXPECT_EQ(ask(toy.port(), "GET", "/health").body, "well");
  EXPECT_EQ(toy.spooled(), 0u);
  if (!sanitizer_holds_memory()) { EXPECT_LT(resident_bytes(), before + (16u << 20)); }
  std::size_t refused = 0;
  for (const auto& record : toy.log()) refused += record.status >= 400 ? 1 : 0;
  EXPECT_GT(refused, toy.log().size() / 3);
  RecordProperty("requests", count);
}

}  // namespace
