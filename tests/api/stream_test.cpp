// Answers without an end: event streams and WebSockets.
#include "api/socket_client.h"
#include "api/toy_server.h"

#include <gtest/gtest.h>
#include <thread>

namespace {

using namespace tritium;
using namespace tritium::test;

TEST(Events, AreSentAsTheyAreWritten) {
  ToyServer toy;
  Client client(toy.port());
  client.send(request_text("GET", "/count") + request_text("GET", "/health"));
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.field("content-type"), "text/event-stream");
  EXPECT_EQ(answer.field("cache-control"), "no-cache");
  EXPECT_EQ(answer.body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");  // the handler let go: the stream has ended
  EXPECT_EQ(client.read_answer().body, "well");                 // and the connection is still good
}

TEST(Events, ReachTheClientAtOnce) {
  ToyServer toy;
  Client client(toy.port());
  client.send(request_text("GET", "/events"));
  EXPECT_EQ(client.read_head().status, 200);
  client.read_until("data: first\n\n");
  ASSERT_TRUE(eventually([&] { return toy.stream() != nullptr; }));
  for (int i = 0; i < 5; ++i) {
    const std::string text = "data: " + std::to_string(i) + "\n\n";
    EXPECT_TRUE(toy.stream()->write(text));
    EXPECT_TRUE(client.read_until(text).ends_with(text));
  }
  toy.stream()->close();
  EXPECT_TRUE(client.read_until("0\r\n\r\n").ends_with("0\r\n\r\n"));
  EXPECT_EQ(toy.closed(), 1);
}

TEST(Events, OldClientsGetThemWithoutChunks) {
  ToyServer toy;
  Client client(toy.port());
  client.send("GET /count HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
  const Answer answer = client.read_answer();
  EXPECT_TRUE(answer.field("transfer-encoding").empty());
  EXPECT_EQ(answer.body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
}

TEST(Events, AClientThatLeavesIsNoticed) {
  ToyServer toy;
  {
    Client client(toy.port());
    client.send(request_text("GET", "/events"));
    client.read_until("first");
    EXPECT_TRUE(eventually([&] { return toy.stream() != nullptr; }));
  }
  EXPECT_TRUE(eventually([&] { return toy.closed() == 1; }));
  EXPECT_TRUE(eventually([&] { return toy.server().counters().connections == 0; }));
}

TEST(Events, HeartbeatsFillTheSilence) {
  http::ServerOptions options;
  options.limits.heartbeat_seconds = 0.1;
  ToyServer toy(options);
  Client client(toy.port());
  client.send(request_text("GET", "/events"));
  client.read_until("first\n\n");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client.read_until(": \n\n").ends_with(": \n\n"));
  EXPECT_EQ(toy.closed(), 0);
}

TEST(Events, AClientThatFallsBehindIsDropped) {
  ToyServer toy;
  Client slow(toy.port()), fast(toy.port());
  slow.take_little();
  slow.send(request_text("GET", "/events"));
  slow.read_until("first");
  ASSERT_TRUE(eventually([&] { return toy.stream() != nullptr; }));
  const auto stream = toy.stream();
  const std::string event = "data: " + std::string(10'000, 'e') + "\n\n";
  int written = 0;
  while (written < 5000 && stream->write(event)) ++written;
  EXPECT_LT(written, 5000);  // 50 MB were not kept for it
  EXPECT_GT(written, 100);
  EXPECT_TRUE(stream->closed());
  EXPECT_EQ(toy.closed(), 1);
  EXPECT_TRUE(eventually([&] { return toy.server().counters().connections == 1; }));
  bool called = false;
  stream->on_close([&] { called = true; });
  EXPECT_TRUE(called);
  fast.send(request_text("GET", "/health"));
  EXPECT_EQ(fast.read_answer().body, "well");
}

TEST(Events, ManyThreadsMayWrite) {
  ToyServer toy;
  Client client(toy.port());
  client.send(request_text("GET", "/events"));
  client.read_until("first\n\n");
  ASSERT_TRUE(eventually([&] { return toy.stream() != nullptr; }));
  std::vector<std::thread> writers;
  for (int i = 0; i < 8; ++i)
    writers.emplace_back([stream = toy.stream()] {
      for (int k = 0; k < 100; ++k) stream->write("data: x\n\n");
    });
  for (auto& writer : writers) writer.join();
  toy.stream()->close();
  const std::string all = client.read_until("\r\n0\r\n\r\n");
  std::size_t count = 0;
  for (std::size_t at = 0; (at = all.find("data: x\n\n", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 800u);
}

TEST(WebSockets, TextGoesBothWaysInOrder) {
  ToyServer toy;
  SocketClient socket(toy.port(), "/socket");
  EXPECT_EQ(socket.answer().status, 101);
  EXPECT_EQ(socket.answer().field("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");  // RFC 6455 §1.3
  EXPECT_FALSE(socket.answer().field("x-request-id").empty());
  EXPECT_EQ(socket.receive().payload, "welcome");
  for (int i = 0; i < 50; ++i) socket.send(1, std::to_string(i));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(socket.receive().payload, "got " + std::to_string(i));
  EXPECT_TRUE(toy.socket()->send_binary(std::string("\0\1\2", 3)));
  const Frame frame = socket.receive();
  EXPECT_EQ(frame.opcode, 2);
  EXPECT_EQ(frame.payload, std::string("\0\1\2", 3));
}

TEST(WebSockets, MessagesMayComeInPieces) {
  ToyServer toy;
  SocketClient socket(toy.port(), "/socket");
  socket.receive();
  socket.send(1, "one ", false);
  socket.send(9, "in between");
  socket.send(0, "message");
  EXPECT_EQ(socket.receive().opcode, 10);
  EXPECT_EQ(socket.receive().payload, "got one message");
}

TEST(WebSockets, PingIsAnsweredAndCloseIsReturned) {
  ToyServer toy;
  SocketClient socket(toy.port(), "/socket");
  EXPECT_EQ(socket.receive().payload, "welcome");
  socket.send(9, "are you there");
  const Frame pong = socket.receive();
  EXPECT_EQ(pong.opcode, 10);
  EXPECT_EQ(pong.payload, "are you there");
  socket.send(8, std::string("\x03\xe8", 2));
  EXPECT_EQ(socket.receive().close_code(), 1000);
  EXPECT_TRUE(socket.client().ended());
  EXPECT_TRUE(eventually([&] { return toy.closed() == 1; }));
}

TEST(WebSockets, WhatIsTooLongOrNotTextIsRefused) {
  http::ServerOptions options;
  options.limits.message_bytes = 1000;
  ToyServer toy(options);
  SocketClient large(toy.port(), "/socket"), binary(toy.port(), "/socket"), wrong(toy.port(), "/socket");
  for (SocketClient* socket : {&large, &binary, &wrong}) EXPECT_EQ(socket->receive().payload, "welcome");
  large.send(1, std::string(1001, 'x'));
  EXPECT_EQ(large.receive().close_code(), 1009);
  binary.send(2, "bytes");
  EXPECT_EQ(binary.receive().close_code(), 1003);
  wrong.send(1, "\xff\xfe");
  EXPECT_EQ(wrong.receive().close_code(), 1007);
  EXPECT_TRUE(eventually([&] { return toy.closed() == 3; }));
}

TEST(WebSockets, AClientThatFallsBehindIsDropped) {
  ToyServer toy;
  SocketClient socket(toy.port(), "/socket");
  socket.client().take_little();
  EXPECT_EQ(socket.receive().payload, "welcome");
  ASSERT_TRUE(eventually([&] { return toy.socket() != nullptr; }));
  const auto held = toy.socket();
  int sent = 0;
  while (sent < 5000 && held->send_binary(std::string(10'000, 'p'))) ++sent;
  EXPECT_LT(sent, 5000);
  EXPECT_TRUE(eventually([&] { return toy.server().counters().connections == 0; }));
}

TEST(WebSockets, WhatIsNoRequestForOneIsToldSo) {
  ToyServer toy;
  const Answer plain = ask(toy.port(), "GET", "/socket");
  EXPECT_EQ(plain.status, 426);
  EXPECT_EQ(plain.field("upgrade"), "websocket");
  EXPECT_EQ(
      ask(toy.port(), "GET", "/socket", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: x\r\n")
          .status,
      426);
  EXPECT_EQ(ask(toy.port(), "GET", "/health", upgrade_fields()).status, 200);  // not a path for them
}

}  // namespace
