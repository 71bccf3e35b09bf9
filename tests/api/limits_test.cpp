// What is too long, too large, too slow or too many.
#include "api/client.h"
#include "api/toy_server.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace {

using namespace tritium;
using namespace tritium::test;
using nlohmann::json;

TEST(Limits, LongTargetsAndHeadersAreRefused) {
  ToyServer toy;
  EXPECT_EQ(ask(toy.port(), "GET", "/echo?" + std::string(8000, 'a')).status, 200);
  EXPECT_EQ(ask(toy.port(), "GET", "/echo?" + std::string(9000, 'a')).status, 414);
  EXPECT_EQ(ask(toy.port(), "GET", "/" + std::string(200'000, 'a')).status, 414);
  EXPECT_EQ(ask(toy.port(), "GET", "/echo", "X-Long: " + std::string(40'000, 'a') + "\r\n").status, 431);
  std::string many;
  for (int i = 0; i < 101; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
  EXPECT_EQ(ask(toy.port(), "GET", "/echo", many).status, 431);
  Client endless(toy.port());
  endless.send("GET /" + std::string(20'000, 'a'));  // no end of the line in sight
  EXPECT_EQ(endless.read_answer().status, 414);
}

// Field case A6: a large payload was dropped between two processes and the request never answered.
TEST(Limits, A6_ABodyNearTheLimitIsTakenAndOneAboveItRefused) {
  ToyServer toy;
  const std::uint64_t limit = http::ServerLimits().body_bytes;
  const std::string form = "Content-Type: multipart/form-data; boundary=x\r\n";
  const std::string head = "--x\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n", end = "\r\n--x--\r\n";
  const std::string content(limit - head.size() - end.size(), 'v');
  const Answer taken = ask(toy.port(), "POST", "/echo", form, head + content + end);
  ASSERT_EQ(taken.status, 200);
  EXPECT_EQ(json::parse(taken.body)["form"][0]["bytes"], content.size());
  // Sent by a client that looks for the answer only when it has sent everything.
  const Answer refused = ask(toy.port(), "POST", "/echo", form, head + content + "v" + end);
  EXPECT_EQ(refused.status, 413);
  EXPECT_NE(refused.body.find("64"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return toy.spooled() == 0; }));
}

TEST(Limits, ABodyThatIsAnnouncedTooLargeIsNotRead) {
  ToyServer toy;
  Client client(toy.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000000\r\n\r\n");
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.field("connection"), "close");
}

TEST(Limits, ChunksAreCounted) {
  http::ServerOptions options;
  options.limits.body_bytes = 100'000;
  ToyServer toy(options);
  Client client(toy.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i) client.send("2000\r\n" + std::string(0x2000, 'c') + "\r\n");
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST(Limits, ChunksWithoutAnEndOfTheirHeadAreRefused) {
  ToyServer toy;
  for (const char* start : {"5;", "0\r\nX: ", "0\r\n"}) {
    Client client(toy.port());
    client.send(std::string("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n") + start);
    for (int i = 0; i < 100; ++i) client.send("A: " + std::string(1000, 'a') + (*start == '0' ? "\r\n" : ""));
    EXPECT_EQ(client.read_answer().status, 400) << start;
  }
}

TEST(Limits, MemoryOfAllBodiesTogetherIsLimited) {
  http::ServerOptions options;
  options.limits.memory_bytes = 1 << 20;
  ToyServer toy(options);
  Client holding(toy.port());
  holding.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n" + std::string(800'000, 'm'));
  ASSERT_TRUE(eventually([&] { return toy.server().counters().memory_bytes == 800'000; }));
  const Answer refused = ask(toy.port(), "POST", "/echo", "", std::string(500'000, 'm'));
  EXPECT_EQ(refused.status, 503);
  EXPECT_FALSE(refused.field("retry-after").empty());
  holding.send(std::string(100'000, 'm'));
  EXPECT_EQ(holding.read_answer().status, 200);
  EXPECT_EQ(ask(toy.port(), "POST", "/echo", "", std::string(500'000, 'm')).status, 200);  // given back
}

TEST(Limits, SlowClientsAreToldAndLeft) {
  http::ServerOptions options;
  options.limits.header_seconds = 0.3;
  options.limits.body_seconds = 0.3;
  options.limits.idle_seconds = 0.3;
  ToyServer toy(options);
  Client idle(toy.port()), header(toy.port()), body(toy.port()), dripping(toy.port());
  header.send("GET /health HTTP/1.1\r\nHos");
  body.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
  dripping.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 20; ++i) {  // a byte now and then does not help
    header.send("x");
    dripping.send("x");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(header.read_answer().status, 408);
  EXPECT_EQ(body.read_answer().status, 408);
  EXPECT_EQ(dripping.read_answer().status, 408);
  EXPECT_TRUE(idle.ended());
  EXPECT_TRUE(header.ended());
}

TEST(Limits, AClientThatTakesNothingIsLeft) {
  http::ServerOptions options;
  options.limits.send_seconds = 0.3;
  ToyServer toy(options);
  Client client(toy.port());
  client.take_little();
  client.send(request_text("GET", "/big"));
  EXPECT_TRUE(eventually([&] { return toy.server().counters().connections == 1; }));
  EXPECT_TRUE(eventually([&] { return toy.server().counters().connections == 0; }));
  ASSERT_TRUE(eventually([&] { return toy.log().size() == 1; }));
  EXPECT_LT(toy.log()[0].bytes, 32u << 20);
}

TEST(Limits, ConnectionsAboveTheLimitAreTurnedAway) {
  http::ServerOptions options;
  options.limits.connections = 3;
  ToyServer toy(options);
  {
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 3; ++i) {
      clients.push_back(std::make_unique<Client>(toy.port()));
      clients.back()->send(request_text("GET", "/health"));
      EXPECT_EQ(clients.back()->read_answer().status, 200);
    }
    Client more(toy.port());
    const Answer answer = more.read_answer();
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(answer.field("retry-after"), "5");
    EXPECT_FALSE(json::parse(answer.body)["error"]["message"].empty());
  }
  EXPECT_TRUE(eventually([&] { return toy.server().counters().connections == 0; }));
  EXPECT_EQ(ask(toy.port(), "GET", "/health").status, 200);
  EXPECT_EQ(toy.server().counters().refused_connections, 1u);
}

}  // namespace
