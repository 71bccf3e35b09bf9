// How a server starts and ends.
#include "api/socket_client.h"
#include "api/toy_server.h"
#include "base/system.h"

#include <gtest/gtest.h>

namespace {

using namespace tritium;
using namespace tritium::test;

TEST(Start, OptionsThatCannotBeAreNamed) {
  TempFolder folder;
  const auto error = [&](auto change) {
    http::ServerOptions options;
    options.spool = folder.path();
    change(options);
    auto server = http::Server::start(options, {});
    EXPECT_FALSE(server.ok());
    return server.ok() ? Error{} : server.error();
  };
  EXPECT_EQ(error([](auto& options) { options.port = 70000; }).field, "port");
  EXPECT_EQ(error([](auto& options) { options.address = "example.com"; }).field, "address");
  EXPECT_EQ(error([](auto& options) { options.address = "192.0.2.1"; }).field, "address");
  EXPECT_EQ(error([](auto& options) { options.spool = ""; }).field, "spool");
  EXPECT_EQ(error([](auto& options) { options.spool = "/proc/none"; }).field, "spool");
  EXPECT_EQ(error([](auto& options) { options.certificate = "/none"; }).field, "certificate");
  const auto broken = folder.write("broken.pem", "not a certificate");
  EXPECT_EQ(error([&](auto& options) { options.certificate = options.private_key = broken; }).field, "certificate");
}

TEST(Start, APortThatIsTakenIsNamed) {
  ToyServer toy;
  TempFolder folder;
  http::ServerOptions options;
  options.spool = folder.path();
  options.port = toy.port();
  const auto second = http::Server::start(options, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().field, "port");
  EXPECT_NE(second.error().message.find(std::to_string(toy.port())), std::string::npos);
}

TEST(Start, TellsWhereItListens) {
  ToyServer toy;
  EXPECT_GT(toy.port(), 0);
  EXPECT_EQ(toy.server().url(), "http://127.0.0.1:" + std::to_string(toy.port()));
}

TEST(Stop, FinishesWhatIsBeingAnswered) {
  ToyServer toy;
  Client idle(toy.port()), busy(toy.port()), events(toy.port());
  SocketClient socket(toy.port(), "/socket");
  socket.receive();
  idle.send(request_text("GET", "/health"));
  EXPECT_EQ(idle.read_answer().status, 200);
  busy.send(request_text("GET", "/slow?ms=400") + request_text("GET", "/health"));
  events.send(request_text("GET", "/events"));
  events.read_until("first\n\n");
  std::thread stopping([&] { toy.server().stop(5); });
  const Answer answer = busy.read_answer();
  EXPECT_EQ(answer.body, "slow");
  EXPECT_EQ(answer.field("connection"), "close");
  EXPECT_TRUE(busy.ended());  // what it sent ahead is not answered any more
  EXPECT_TRUE(idle.ended());
  EXPECT_TRUE(events.read_until("0\r\n\r\n").ends_with("0\r\n\r\n"));
  EXPECT_EQ(socket.receive().close_code(), 1001);
  socket.send(8, std::string("\x03\xe9", 2));
  stopping.join();
  EXPECT_EQ(toy.closed(), 2);
}

TEST(Stop, EndsWhatTakesTooLong) {
  ToyServer toy;
  Client client(toy.port()), half(toy.port());
  client.take_little();
  client.send(request_text("GET", "/big"));
  client.read_head();
  half.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_TRUE(eventually([&] { return toy.server().counters().requests == 2; }));
  const double begin = monotonic_seconds();
  toy.server().stop(0.2);
  EXPECT_LT(monotonic_seconds() - begin, 2);
  EXPECT_TRUE(half.ended());
}

TEST(Stop, StreamsMayBeHeldLongerThanTheServerLives) {
  std::shared_ptr<http::Stream> stream;
  std::shared_ptr<http::WebSocket> held;
  {
    ToyServer toy;
    Client client(toy.port());
    SocketClient socket(toy.port(), "/socket");
    client.send(request_text("GET", "/events"));
    client.read_until("first\n\n");
    socket.receive();
    ASSERT_TRUE(eventually([&] { return toy.stream() && toy.socket(); }));
    stream = toy.stream();
    held = toy.socket();
  }
  EXPECT_TRUE(stream->closed());
  EXPECT_FALSE(stream->write("data: late\n\n"));
  EXPECT_FALSE(held->send_text("late"));
}

TEST(Stop, WithClientsAtWork) {
  for (int round = 0; round < 5; ++round) {
    std::vector<std::thread> clients;
    {
      ToyServer toy;
      for (int i = 0; i < 4; ++i)
        clients.emplace_back([port = toy.port()] {
          Client client(port, 1);
          while (client.send(request_text("POST", "/echo", "", std::string(5000, 'x')) + request_text("GET", "/file")) &&
                 client.read_answer().status == 200 && client.read_answer().status == 200) {}
        });
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      toy.server().stop(0.05);
    }
    for (auto& client : clients) client.join();
  }
}

}  // namespace
