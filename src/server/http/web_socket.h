// The WebSocket side of a connection.
#pragma once

#include "server/http/channel.h"
#include "server/http/response.h"
#include "server/http/transport.h"

namespace tritium::http {

class WebSocketLink {
 public:
  virtual ~WebSocketLink() = default;
  // On the connection's strand.
  virtual void flush() = 0;  // the channel has something, or is closed
  virtual void stop() = 0;   // the server ends
};

struct WebSocketSettings {
  std::string key;                // Sec-WebSocket-Key of the request
  Fields fields;                  // of the answer
  std::string early;              // bytes that came behind the request
  std::size_t message_bytes = 0;  // limit of a message from the client
};

// Answers the request for an upgrade and carries messages both ways. `opened`: when the answer has been sent;
// calls what it is given, on the strand, when messages of the client may come. `submit`: runs a task that may
// block, false if there is no room. `ended`: once, with the bytes sent; nothing is called after that.
std::shared_ptr<WebSocketLink> run_web_socket(std::shared_ptr<Transport> transport, std::shared_ptr<Channel> channel,
                                              WebSocketSettings settings, std::function<bool(std::function<void()>)> submit,
                                              std::function<void(std::function<void()>)> opened, std::function<void(std::uint64_t)> ended);

}  // namespace tritium::http
