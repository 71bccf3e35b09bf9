// Requests and answers over real sockets: methods, routes, bodies, connections.
#include "api/client.h"
#include "api/toy_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace {

using namespace tritium;
using namespace tritium::test;
using nlohmann::json;

TEST(Http, AnswersWithWhatTheHandlerWasGiven) {
  ToyServer toy;
  const Answer answer = ask(toy.port(), "GET", "/echo?a=1&b=%C3%BC+x&a=2");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("content-type"), "application/json");
  EXPECT_EQ(answer.field("connection"), "keep-alive");
  const json seen = json::parse(answer.body);
  EXPECT_EQ(seen["path"], "/echo");
  EXPECT_EQ(seen["query"], json::parse(R"([["a","1"],["b","ü x"],["a","2"]])"));
  EXPECT_EQ(seen["remote"], "127.0.0.1");
}

TEST(Http, FixedSegmentsWinAndTheRestIsOneParameter) {
  ToyServer toy;
  EXPECT_EQ(ask(toy.port(), "GET", "/videos/list").body, "list");
  EXPECT_EQ(json::parse(ask(toy.port(), "GET", "/videos/v_1").body)["params"]["id"], "v_1");
  EXPECT_EQ(json::parse(ask(toy.port(), "GET", "/videos/v_1/content").body)["params"]["id"], "v_1");
  EXPECT_EQ(json::parse(ask(toy.port(), "GET", "/pages/a/b%20c/d.js").body)["params"]["rest"], "a/b c/d.js");
  EXPECT_EQ(ask(toy.port(), "GET", "/videos/").status, 404);
}

TEST(Http, BodiesComeWithALengthOrInChunks) {
  ToyServer toy;
  EXPECT_EQ(json::parse(ask(toy.port(), "POST", "/echo", "Content-Type: application/json\r\n", "{\"x\":1}").body)["body"], "{\"x\":1}");
  Client client(toy.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.send("a;note=1\r\n0123456789\r\n0\r\nX-Trailer: dropped\r\n\r\n");
  EXPECT_EQ(json::parse(client.read_answer().body)["body"], "abc0123456789");
}

TEST(Http, PipelinedRequestsAreAnsweredInOrder) {
  ToyServer toy;
  Client client(toy.port());
  std::string all =
      request_text("GET", "/slow?ms=50") + request_text("POST", "/echo", "", "body of the second") + request_text("GET", "/health");
  for (int i = 0; i < 20; ++i) all += request_text("GET", fmt::format("/echo?n={}", i));
  client.send(all);
  EXPECT_EQ(client.read_answer().body, "slow");
  EXPECT_EQ(json::parse(client.read_answer().body)["body"], "body of the second");
  EXPECT_EQ(client.read_answer().body, "well");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(json::parse(client.read_answer().body)["query"][0][1], std::to_string(i));
}

TEST(Http, EventStreamsAreSentAsTheyAreWritten) {
  ToyServer toy;
  Client client(toy.port());
  client.send(request_text("GET", "/count") + request_text("GET", "/health"));
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.field("content-type"), "text/event-stream");
  EXPECT_EQ(answer.body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
  EXPECT_EQ(client.read_answer().body, "well");  // the connection is still good
}

TEST(Http, FilesAreSentWhole) {
  ToyServer toy;
  const Answer answer = ask(toy.port(), "GET", "/file");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, toy.clip());
  EXPECT_EQ(answer.field("etag"), "\"v1\"");
}

}  // namespace
