// Forms: what the fields hold, limits, what is malformed, and that no file is left behind.
#include "api/client.h"
#include "api/toy_server.h"
#include "server/http/multipart.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace {

using namespace tritium;
using namespace tritium::test;
using nlohmann::json;

const std::string kType = "Content-Type: multipart/form-data; boundary=xyz\r\n";

std::string part(const std::string& head, const std::string& content) {
  return "--xyz\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + content + "\r\n";
}
const std::string kEnd = "--xyz--\r\n";

TEST(Forms, FieldsAndFilesArrive) {
  ToyServer toy;
  const std::string text =
      part("name=\"prompt\"", "a cat\r\n--xy\r\n") +
      part("name=\"image\"; filename=\"C:\\pictures\\a \\\"b\\\".png\"\r\nContent-Type: image/png", "\x89PNG\r\n\r\n--xy") +
      part("name=empty", "") + part("name=\"f\"; filename*=UTF-8''%C3%BC.wav", "RIFF") + kEnd;
  const Answer answer = ask(toy.port(), "POST", "/echo", kType, text);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json form = json::parse(answer.body)["form"];
  ASSERT_EQ(form.size(), 4u);
  EXPECT_EQ(form[0]["value"], "a cat\r\n--xy\r\n");
  EXPECT_EQ(form[0]["is_file"], false);
  EXPECT_EQ(form[1]["file_name"], "C:\\pictures\\a \"b\".png");
  EXPECT_EQ(form[1]["type"], "image/png");
  EXPECT_EQ(form[1]["bytes"], 12);
  EXPECT_EQ(form[1]["is_file"], true);
  EXPECT_EQ(form[2]["value"], "");
  EXPECT_EQ(form[3]["file_name"], "ü.wav");
  EXPECT_EQ(form[3]["content"], "RIFF");
  EXPECT_EQ(toy.spooled(), 0u);  // the handler has returned
}

TEST(Forms, TextBeforeAndAfterMeansNothing) {
  ToyServer toy;
  const Answer answer = ask(toy.port(), "POST", "/echo", kType,
                            "This is a form.\r\n--xyz \t\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n" + kEnd + "\r\nThe end.");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["form"][0]["value"], "1");
}

TEST(Forms, UrlEncodedOnesToo) {
  ToyServer toy;
  const Answer answer =
      ask(toy.port(), "POST", "/echo", "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n", "prompt=a+cat%21&seed=7&&x");
  const json form = json::parse(answer.body)["form"];
  ASSERT_EQ(form.size(), 3u);
  EXPECT_EQ(form[0]["value"], "a cat!");
  EXPECT_EQ(form[2]["name"], "x");
  EXPECT_EQ(ask(toy.port(), "POST", "/echo", "Content-Type: application/x-www-form-urlencoded\r\n", "a=%4").status, 400);
}

// What "curl -d" sends unless it is told the type.
TEST(Forms, ADocumentIsNoForm) {
  ToyServer toy;
  const std::string document = R"({"prompt": "a=1&b"})";
  const Answer answer = ask(toy.port(), "POST", "/echo", "Content-Type: application/x-www-form-urlencoded\r\n", " " + document);
  EXPECT_EQ(json::parse(answer.body)["body"], " " + document);
  EXPECT_TRUE(json::parse(answer.body)["form"].empty());
}

TEST(Forms, MalformedOnesAreRefusedAndNothingIsLeft) {
  ToyServer toy;
  const std::string file = part("name=\"f\"; filename=\"a.png\"", std::string(100'000, 'x'));
  for (const std::string& text :
       {std::string(), std::string("--xyz"), std::string("no boundary at all"), file, file + "--xyz\r\n", file + "--xyzz\r\n\r\n",
        std::string("--xyz\r\n\r\nno headers\r\n--xyz--\r\n"), "--xyz\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n" + kEnd,
        "--xyz\r\nContent-Disposition: form-data\r\n\r\n1\r\n" + kEnd,
        "--xyz\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n" + kEnd,
        "--xyz\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\nAA==\r\n" + kEnd,
        "--xyz\r\nX: " + std::string(20'000, 'h')}) {
    const Answer answer = ask(toy.port(), "POST", "/echo", kType, text);
    EXPECT_EQ(answer.status, 400) << text.substr(0, 80);
    EXPECT_NE(answer.body.find("form"), std::string::npos);
  }
  for (const char* type :
       {"multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a",
        "multipart/form-data; boundary=\"a\tb\"",
        "multipart/form-data; boundary=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
    EXPECT_EQ(ask(toy.port(), "POST", "/echo", std::string("Content-Type: ") + type + "\r\n", kEnd).status, 400) << type;
  EXPECT_TRUE(eventually([&] { return toy.spooled() == 0; }));
}

TEST(Forms, LimitsAreNamed) {
  http::ServerOptions options;
  options.limits.form_fields = 3;
  options.limits.field_bytes = 1000;
  ToyServer toy(options);
  std::string fields;
  for (int i = 0; i < 4; ++i) fields += part("name=f" + std::to_string(i) + "; filename=x", "x");
  EXPECT_EQ(ask(toy.port(), "POST", "/echo", kType, fields + kEnd).status, 413);
  const Answer large = ask(toy.port(), "POST", "/echo", kType, part("name=prompt", std::string(1001, 'p')) + kEnd);
  EXPECT_EQ(large.status, 413);
  EXPECT_NE(large.body.find("prompt"), std::string::npos);
  EXPECT_EQ(ask(toy.port(), "POST", "/echo", kType, part("name=f; filename=x", std::string(5000, 'p')) + kEnd).status, 200);
  EXPECT_EQ(ask(toy.port(), "POST", "/echo", "Content-Type: application/x-www-form-urlencoded\r\n", "a&b&c&d").status, 400);
  EXPECT_EQ(ask(toy.port(), "GET", "/echo?a&b&c&d").status, 400);
  EXPECT_TRUE(eventually([&] { return toy.spooled() == 0; }));
}

TEST(Forms, AnUploadThatBreaksOffLeavesNothing) {
  ToyServer toy;
  {
    Client client(toy.port());
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\n" + kType + "Content-Length: 100000\r\n\r\n" +
                part("name=f; filename=x", "half"));
    EXPECT_TRUE(eventually([&] { return toy.spooled() == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return toy.spooled() == 0; }));
}

// The same events, however the bytes are cut.
TEST(Forms, PiecesOfAnySizeGiveTheSame) {
  const std::string text =
      "preamble\r\n" + part("name=a", "one\r\n--xy\r\r\n-") + part("name=b; filename=f", std::string(300, '\r')) + kEnd + "epilogue";
  const auto parsed = [&](std::size_t piece) {
    std::string seen;
    http::MultipartParser parser("xyz", {[&](const http::MultipartPart& begun) -> Result<void> {
                                           seen += "<" + begun.name + (begun.is_file ? "!" : "") + ">";
                                           return {};
                                         },
                                         [&](std::string_view bytes) -> Result<void> {
                                           seen += bytes;
                                           return {};
                                         },
                                         [&]() -> Result<void> {
                                           seen += "<end>";
                                           return {};
                                         }});
    for (std::size_t at = 0; at < text.size(); at += piece)
      if (!parser.write(std::string_view(text).substr(at, piece)).ok()) return std::string("refused");
    return parser.finish().ok() ? seen : std::string("unfinished");
  };
  const std::string whole = parsed(text.size());
  EXPECT_EQ(whole, "<a>one\r\n--xy\r\r\n-<end><b!>" + std::string(300, '\r') + "<end>");
  for (std::size_t piece = 1; piece < 40; ++piece) EXPECT_EQ(parsed(piece), whole) << piece;
}

}  // namespace
