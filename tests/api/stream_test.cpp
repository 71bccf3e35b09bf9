// Answers without an end: event streams and WebSockets.
#include "api/socket_client.h"
#include "api/toy_server.h"

#include <gtest/gtest.h>
#include <thread>

namespace {

using namespace tritium;
using namespace tritium::test;

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

}  // namespace
