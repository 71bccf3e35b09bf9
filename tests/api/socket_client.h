// The client's side of a WebSocket, frame by frame.
#pragma once

#include "api/client.h"

namespace tritium::test {

struct Frame {
  int opcode = -1;  // 1 text, 2 binary, 8 close, 9 ping, 10 pong; -1: the connection has ended
  bool last = true;
  std::string payload;
  [[nodiscard]] int close_code() const {
    return payload.size() < 2 ? 0 : static_cast<unsigned char>(payload[0]) << 8 | static_cast<unsigned char>(payload[1]);
  }
};

// The fields of a good request for an upgrade.
std::string upgrade_fields(const std::string& more = "");

class SocketClient {
 public:
  SocketClient(int port, const std::string& target, const std::string& fields = upgrade_fields(), double seconds = 10);
  [[nodiscard]] const Answer& answer() const { return answer_; }  // to the request for an upgrade
  void send(int opcode, std::string_view payload, bool last = true);
  Frame receive();
  Client& client() { return client_; }

 private:
  bool need(std::size_t bytes);
  Client client_;
  Answer answer_;
  std::string buffer_;
};

}  // namespace tritium::test
