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
  EXPECT_EQ(answer.field("x-content-type-options"), "nosniff");
  EXPECT_TRUE(answer.field("date").ends_with(" GMT"));
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

TEST(Http, PathsThatLeaveTheirFolderAreRefused) {
  ToyServer toy;
  for (const char* path : {"/pages/../echo", "/pages/%2e%2e/echo", "/pages/a%2f..%2fb", "/pages/.", "/pages/a%00b", "/pages/a%0d%0ab",
                           "/pages/%", "/pages/%zz", "pages", "*"})
    EXPECT_EQ(ask(toy.port(), "GET", path).status, 400) << path;
  EXPECT_EQ(ask(toy.port(), "GET", "/pages/..a/b..").status, 200);
  EXPECT_EQ(ask(toy.port(), "GET", "http://localhost/health").body, "well");  // the form for proxies
}

TEST(Http, WhatDoesNotExistIsNamed) {
  ToyServer toy;
  const Answer nothing = ask(toy.port(), "GET", "/nothing");
  EXPECT_EQ(nothing.status, 404);
  EXPECT_NE(json::parse(nothing.body)["error"]["message"].get<std::string>().find("/nothing"), std::string::npos);
  const Answer wrong = ask(toy.port(), "PUT", "/videos/v_1", "", "x");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.field("allow"), "DELETE, GET, HEAD");
  EXPECT_EQ(ask(toy.port(), "BREW", "/echo").status, 405);
}

TEST(Http, ErrorsHaveTheShapeOfTheirPrefix) {
  ToyServer toy;
  EXPECT_EQ(json::parse(ask(toy.port(), "GET", "/v1/nothing").body)["path"], "/v1/nothing");
  EXPECT_TRUE(json::parse(ask(toy.port(), "GET", "/v1x").body).contains("error"));
  EXPECT_TRUE(json::parse(ask(toy.port(), "GET", "/v1/x", "Content-Encoding: gzip\r\n").body).contains("v1"));
  const Answer large = ask(toy.port(), "POST", "/v1/throw", "Content-Length: 99999999999\r\n");
  EXPECT_TRUE(large.body.empty() || json::parse(large.body).contains("v1")) << large.body;
}

TEST(Http, AHandlerThatThrowsCostsOneAnswer) {
  ToyServer toy;
  Client client(toy.port());
  client.send(request_text("GET", "/throw") + request_text("GET", "/v1/throw") + request_text("GET", "/health"));
  EXPECT_EQ(client.read_answer().status, 500);
  const Answer shaped = client.read_answer();
  EXPECT_EQ(shaped.status, 500);
  EXPECT_NE(json::parse(shaped.body)["v1"].get<std::string>().find("a fault of the handler"), std::string::npos);
  EXPECT_EQ(client.read_answer().body, "well");
}

TEST(Http, HeadIsGetWithoutABody) {
  ToyServer toy;
  Client client(toy.port());
  client.send(request_text("HEAD", "/health") + request_text("HEAD", "/file") + request_text("HEAD", "/count") +
              request_text("GET", "/health"));
  const Answer text = client.read_answer(true), file = client.read_answer(true), stream = client.read_answer(true);
  EXPECT_EQ(text.field("content-length"), "4");
  EXPECT_EQ(file.field("content-length"), std::to_string(toy.clip().size()));
  EXPECT_EQ(stream.field("content-type"), "text/event-stream");
  EXPECT_EQ(client.read_answer().body, "well");
}

TEST(Http, OptionsTellsWhatIsAllowed) {
  ToyServer toy;
  const Answer answer = ask(toy.port(), "OPTIONS", "/videos/v_1");
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.field("allow"), "DELETE, GET, HEAD, OPTIONS");
  EXPECT_TRUE(answer.field("access-control-allow-origin").empty());
  EXPECT_EQ(ask(toy.port(), "OPTIONS", "*").status, 204);
  EXPECT_EQ(ask(toy.port(), "OPTIONS", "/nothing").status, 404);
}

TEST(Http, BodiesComeWithALengthOrInChunks) {
  ToyServer toy;
  EXPECT_EQ(json::parse(ask(toy.port(), "POST", "/echo", "Content-Type: application/json\r\n", "{\"x\":1}").body)["body"], "{\"x\":1}");
  Client client(toy.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.send("a;note=1\r\n0123456789\r\n0\r\nX-Request-Id: from-a-trailer\r\n\r\n");
  const json seen = json::parse(client.read_answer().body);
  EXPECT_EQ(seen["body"], "abc0123456789");
  EXPECT_NE(seen["id"], "from-a-trailer");
}

TEST(Http, BytesMayComeOneByOne) {
  ToyServer toy;
  Client client(toy.port());
  for (const char byte : "\r\n" + request_text("POST", "/echo?x=%41", "X-A: b\r\n", "abc") + request_text("GET", "/health"))
    ASSERT_TRUE(client.send(std::string_view(&byte, 1)));
  EXPECT_EQ(json::parse(client.read_answer().body)["body"], "abc");
  EXPECT_EQ(client.read_answer().body, "well");
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

TEST(Http, ConnectionsAreClosedWhenThatIsAskedFor) {
  ToyServer toy;
  Client client(toy.port());
  client.send(request_text("GET", "/health", "Connection: close\r\n"));
  EXPECT_EQ(client.read_answer().field("connection"), "close");
  EXPECT_TRUE(client.ended());
  Client old(toy.port());
  old.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_answer().body, "well");
  EXPECT_TRUE(old.ended());
}

TEST(Http, AClientThatHasFinishedSendingStillGetsItsAnswer) {
  ToyServer toy;
  Client client(toy.port());
  client.send(request_text("GET", "/slow?ms=100"));
  client.finish_sending();
  EXPECT_EQ(client.read_answer().body, "slow");
  EXPECT_TRUE(client.ended());
}

TEST(Http, ExpectContinueIsAnsweredBeforeTheBody) {
  ToyServer toy;
  Client client(toy.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 100);
  client.send("abc");
  EXPECT_EQ(json::parse(client.read_answer().body)["body"], "abc");
  // A body that would be refused is never asked for.
  client.send("POST /nothing HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 404);
  EXPECT_EQ(ask(toy.port(), "POST", "/echo", "Expect: a miracle\r\n", "abc").status, 417);
}

TEST(Http, MessagesThatTwoReadersUnderstandDifferentlyAreRefused) {
  ToyServer toy;
  const std::string start = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  for (const char* fields :
       {"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "Content-Length: -3\r\n\r\nabc", "Content-Length: 3x\r\n\r\nabc", "Content-Length: 3,4\r\n\r\nabc", "Content-Length : 3\r\n\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc", "Host: localhost\r\nContent-Length: 0\r\n\r\n", "No-Colon\r\n\r\n",
        "A: b\r\n c\x01\r\n\r\n"}) {
    Client client(toy.port());
    client.send(start + fields);
    EXPECT_EQ(client.read_answer().status, 400) << fields;
    EXPECT_TRUE(client.ended()) << fields;
  }
  for (const auto& [text, status] :
       std::initializer_list<std::pair<const char*, int>>{{"GET /health HTTP/1.1\r\n\r\n", 400},
                                                          {"GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n", 505},
                                                          {"GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
                                                          {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400}}) {
    Client client(toy.port());
    client.send(text);
    EXPECT_EQ(client.read_answer().status, status) << text;
  }
  EXPECT_EQ(ask(toy.port(), "POST", "/echo", "Transfer-Encoding: gzip, chunked\r\n").status,
            400);  // with the Content-Length of request_text
  Client coded(toy.port());
  coded.send(start + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(coded.read_answer().status, 501);
}

TEST(Http, RequestIdsAreKeptWhenTheyAreSane) {
  ToyServer toy;
  EXPECT_EQ(ask(toy.port(), "GET", "/echo", "X-Request-Id: my-id_1.2\r\n").field("x-request-id"), "my-id_1.2");
  const std::string own = ask(toy.port(), "GET", "/echo").field("x-request-id");
  EXPECT_TRUE(own.starts_with("req_") && own.size() == 28) << own;
  EXPECT_NE(ask(toy.port(), "GET", "/echo").field("x-request-id"), own);
  EXPECT_TRUE(ask(toy.port(), "GET", "/echo", "X-Request-Id: a b\r\n").field("x-request-id").starts_with("req_"));
  EXPECT_TRUE(ask(toy.port(), "GET", "/echo", "X-Request-Id: " + std::string(65, 'a') + "\r\n").field("x-request-id").starts_with("req_"));
}

TEST(Http, AHandlerCannotBreakTheHeaderOfItsAnswer) {
  ToyServer toy;
  const Answer answer = ask(toy.port(), "GET", "/split");
  EXPECT_EQ(answer.body, "x");
  EXPECT_TRUE(answer.field("x-injected").empty());
}

TEST(Http, TheAccessLogHasOneRecordForEachAnswerAndNoSecrets) {
  ToyServer toy;
  ask(toy.port(), "GET", "/health?prompt=secret", "X-Request-Id: one\r\n");
  ask(toy.port(), "POST", "/nothing/%22%0a", "", "secret");
  Client broken(toy.port());
  broken.send("\x01\x02\r\n\r\n");
  broken.read_answer();
  ASSERT_TRUE(eventually([&] { return toy.log().size() == 3; }));
  const auto log = toy.log();
  EXPECT_EQ(log[0].id, "one");
  EXPECT_EQ(log[0].path, "/health");
  EXPECT_EQ(log[0].status, 200);
  EXPECT_EQ(log[0].bytes, 4u);
  EXPECT_GE(log[0].seconds, 0);
  EXPECT_EQ(log[1].status, 400);
  EXPECT_EQ(log[2].path, "-");
  for (const auto& record : log) {
    EXPECT_EQ(http::access_text(record).find("secret"), std::string::npos);
    EXPECT_EQ(http::access_text(record).find('\n'), std::string::npos);
    EXPECT_EQ(json::parse(http::access_json(record))["request_id"], record.id);
  }
}

// Field case A2: several invalid requests at once blocked a server for good.
TEST(Http, A2_ManyBadRequestsAtOnceAndThenAGoodOne) {
  http::ServerOptions options;
  options.handler_threads = 4;
  ToyServer toy(options);
  std::vector<std::thread> clients;
  std::atomic<int> refused{0};
  for (int i = 0; i < 16; ++i)
    clients.emplace_back([&, i] {
      const char* bad[] = {"/throw", "/nothing", "/v1/throw", "/%"};
      const Answer answer = ask(toy.port(), i % 2 == 0 ? "GET" : "POST", bad[i % 4], "", i % 2 == 0 ? "" : "{bad");
      if (answer.status >= 400) ++refused;
    });
  for (auto& client : clients) client.join();
  EXPECT_EQ(refused, 16);
  EXPECT_EQ(ask(toy.port(), "GET", "/health").body, "well");
}

TEST(Http, RequestsBeyondTheHandlersWaitOrAreTurnedAway) {
  http::ServerOptions options;
  options.handler_threads = 2;
  options.waiting_requests = 2;
  ToyServer toy(options);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(toy.port()));
    clients.back()->send(request_text("GET", "/slow?ms=200"));
  }
  std::map<int, int> statuses;
  for (auto& client : clients) {
    const Answer answer = client->read_answer();
    ++statuses[answer.status];
    EXPECT_EQ(answer.field("retry-after").empty(), answer.status == 200);
  }
  EXPECT_EQ(statuses[200], 4);
  EXPECT_EQ(statuses[503], 4);
}

}  // namespace
