// Who may use the server: hosts, pages, keys.
#include "api/socket_client.h"
#include "api/toy_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

namespace {

using namespace tritium;
using namespace tritium::test;
using nlohmann::json;

int status_for(int port, const std::string& method, const std::string& host, const std::string& fields = "") {
  Client client(port);
  client.send(method + " /echo HTTP/1.1\r\nHost: " + host + "\r\n" + fields + (method == "POST" ? "Content-Length: 0\r\n\r\n" : "\r\n"));
  return client.read_answer().status;
}

TEST(Access, OnLoopbackOnlyItsOwnNamesAreMeant) {
  http::ServerOptions options;
  options.hosts = {"tritium.home", "other.home:9000"};
  ToyServer toy(options);
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000", "localhost.",
                           "page.localhost", "Tritium.Home:1", "other.home:9000"})
    EXPECT_EQ(status_for(toy.port(), "GET", host), 200) << host;
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.5", "[::2]", "[::1", "other.home",
                           "a b", "", "localhost:999999", "localhost:x", "user@localhost"})
    EXPECT_EQ(status_for(toy.port(), "GET", host), *host == '\0' ? 200 : 403) << host;
}

TEST(Access, OtherHostsAreFreeUnlessSomeAreListed) {
  const http::AccessPolicy open(false, {}, {}), listed(false, {"video.example"}, {});
  EXPECT_TRUE(open.host_allowed("anything.example:8000"));
  EXPECT_FALSE(open.host_allowed("not a host"));
  EXPECT_TRUE(listed.host_allowed("VIDEO.example:8000"));
  EXPECT_FALSE(listed.host_allowed("localhost"));
}

TEST(Access, PagesOfOtherSitesChangeNothing) {
  http::ServerOptions options;
  options.origins = {"https://studio.example"};
  ToyServer toy(options);
  const int port = toy.port();
  EXPECT_EQ(status_for(port, "POST", "localhost:8000"), 200);  // a program
  EXPECT_EQ(status_for(port, "POST", "localhost:8000", "Origin: http://localhost:8000\r\n"), 200);
  EXPECT_EQ(status_for(port, "POST", "localhost", "Origin: http://localhost\r\n"), 200);
  EXPECT_EQ(status_for(port, "POST", "localhost", "Origin: https://studio.example\r\n"), 200);
  for (const char* origin : {"https://evil.example", "null", "http://localhost:8001", "http://studio.example",
                             "https://studio.example.evil.example", "localhost:8000", "file://"})
    EXPECT_EQ(status_for(port, "POST", "localhost:8000", std::string("Origin: ") + origin + "\r\n"), 403) << origin;
  EXPECT_EQ(status_for(port, "GET", "localhost", "Origin: https://evil.example\r\n"), 200);  // it cannot read the answer
  SocketClient foreign(port, "/socket", upgrade_fields("Origin: https://evil.example\r\n"));
  EXPECT_EQ(foreign.answer().status, 403);
  SocketClient own(port, "/socket", upgrade_fields("Origin: http://localhost\r\n"));
  EXPECT_EQ(own.answer().status, 101);
}

TEST(Access, ListedPagesMayReadAnswers) {
  http::ServerOptions options;
  options.origins = {"https://studio.example/"};
  ToyServer toy(options);
  const Answer allowed = ask(toy.port(), "GET", "/echo", "Origin: https://studio.example\r\n");
  EXPECT_EQ(allowed.field("access-control-allow-origin"), "https://studio.example");
  EXPECT_EQ(allowed.field("vary"), "Origin");
  EXPECT_TRUE(ask(toy.port(), "GET", "/echo", "Origin: https://evil.example\r\n").field("access-control-allow-origin").empty());
  const std::string asked = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, content-type\r\n";
  const Answer preflight = ask(toy.port(), "OPTIONS", "/echo", "Origin: https://studio.example\r\n" + asked);
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.field("access-control-allow-methods"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(preflight.field("access-control-allow-headers"), "authorization, content-type");
  EXPECT_TRUE(
      ask(toy.port(), "OPTIONS", "/echo", "Origin: https://evil.example\r\n" + asked).field("access-control-allow-methods").empty());
}

http::ServerOptions with_keys() {
  auto keys = http::ApiKeys::parse(
      "# people\nanna  0123456789abcdef  max_queued=3\nben\tfedcba9876543210 requests_per_minute=3 # slow\r\n\n", "keys");
  EXPECT_TRUE(keys.ok()) << keys.error().text();
  http::ServerOptions options;
  options.keys = *keys;
  options.public_paths = {"/health", "/pages/*"};
  return options;
}

TEST(Keys, AreAskedForAndNameTheOwner) {
  ToyServer toy(with_keys());
  const auto with = [&](const std::string& fields) { return ask(toy.port(), "GET", "/echo", fields); };
  const Answer without = with("");
  EXPECT_EQ(without.status, 401);
  EXPECT_EQ(without.field("www-authenticate"), "Bearer");
  EXPECT_EQ(json::parse(with("Authorization: Bearer 0123456789abcdef\r\n").body)["owner"], "anna");
  EXPECT_EQ(with("authorization: bearer   0123456789abcdef \r\n").status, 200);
  for (const char* value : {"Bearer 0123456789abcdeF", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Basic 0123456789abcdef",
                            "0123456789abcdef", "Bearer", "Bearer "})
    EXPECT_EQ(with(std::string("Authorization: ") + value + "\r\n").status, 401) << value;
  EXPECT_EQ(ask(toy.port(), "GET", "/health").status, 200);
  EXPECT_EQ(ask(toy.port(), "GET", "/pages/index.html").status, 200);
  EXPECT_EQ(ask(toy.port(), "GET", "/health/").status, 401);
  EXPECT_EQ(ask(toy.port(), "GET", "/nothing").status, 401);  // not told what exists
  for (const auto& record : toy.log()) EXPECT_EQ(http::access_json(record).find("0123456789"), std::string::npos);
}

TEST(Keys, OwnPagesMayCarryThemInACookie) {
  ToyServer toy(with_keys());
  const auto with = [&](const std::string& fields) {
    return ask(toy.port(), "GET", "/echo", "Cookie: a=b; tritium_key=0123456789abcdef\r\n" + fields).status;
  };
  EXPECT_EQ(with(""), 200);
  EXPECT_EQ(with("Sec-Fetch-Site: same-origin\r\nOrigin: http://localhost\r\n"), 200);
  EXPECT_EQ(with("Sec-Fetch-Site: cross-site\r\n"), 401);
  EXPECT_EQ(with("Origin: https://evil.example\r\n"), 401);
  EXPECT_EQ(with("Authorization: Bearer wrong\r\n"), 401);
}

TEST(Keys, HaveARateOfTheirOwn) {
  ToyServer toy(with_keys());
  const auto as = [&](const std::string& key) { return ask(toy.port(), "GET", "/echo", "Authorization: Bearer " + key + "\r\n"); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(as("fedcba9876543210").status, 200);
  const Answer refused = as("fedcba9876543210");
  EXPECT_EQ(refused.status, 429);
  EXPECT_GT(std::stoi(refused.field("retry-after")), 0);
  EXPECT_LE(std::stoi(refused.field("retry-after")), 20);
  EXPECT_EQ(as("0123456789abcdef").status, 200);
}

TEST(Keys, ATokenComesBackWithTime) {
  const auto keys = *http::ApiKeys::parse("a 0123456789abcdef requests_per_minute=60", "keys");
  const http::ApiKey* key = keys->find("0123456789abcdef");
  ASSERT_NE(key, nullptr);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(keys->take(*key, 100), 0);
  EXPECT_NEAR(keys->take(*key, 100.25), 0.75, 1e-9);
  EXPECT_EQ(keys->take(*key, 101.01), 0);
  EXPECT_GT(keys->take(*key, 101.02), 0);
  EXPECT_EQ(keys->find_name("a"), key);
  EXPECT_EQ(keys->find_name("b"), nullptr);
}

TEST(Keys, FilesWithMistakesAreRefusedByLineAndWithoutTheKey) {
  const auto message = [](const std::string& text) {
    const auto keys = http::ApiKeys::parse(text, "the file");
    return keys.ok() ? std::string("taken") : keys.error().text();
  };
  EXPECT_NE(message("# none\n").find("holds no key"), std::string::npos);
  for (const char* bad : {"anna\n", "anna short-secret\n", "an/na 0123456789abcdef\n", "anna 0123456789abcdef max_queued=0\n",
                          "anna 0123456789abcdef max_queued=9999999999\n", "anna 0123456789abcdef speed=3\n",
                          "b 0123456789abcdeX\nb 0123456789abcdeY\n", "b 0123456789abcdef\nc 0123456789abcdef\n"}) {
    const std::string text = message(std::string("\n") + bad);
    EXPECT_NE(text.find("line "), std::string::npos) << bad;
    EXPECT_EQ(text.find("secret"), std::string::npos);
    EXPECT_EQ(text.find("0123456789"), std::string::npos);
  }
  TempFolder folder;
  const auto file = folder.write("keys", "anna 0123456789abcdef\n");
  ::chmod(file.c_str(), 0644);
  const auto open = http::ApiKeys::load(file);
  ASSERT_FALSE(open.ok());
  EXPECT_NE(open.error().text().find("chmod"), std::string::npos);
  ::chmod(file.c_str(), 0600);
  EXPECT_TRUE(http::ApiKeys::load(file).ok());
  EXPECT_EQ(http::ApiKeys::load(folder.path() / "none").error().code, ErrorCode::usage);
}

}  // namespace
