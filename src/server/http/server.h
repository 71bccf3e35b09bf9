// The HTTP server: listens, answers by the router's handlers, and outlives whatever its clients send.
//
// Sockets are served by a few threads that never block; handlers run on threads of their own and may. A client has one request answered
// after the other; more that it sends ahead wait. Bodies are read before the handler is called: forms into the spool folder, others into
// memory. Callbacks of streams and WebSockets: `open` and on_text run on handler threads, on_close on any.
#pragma once

#include "server/http/options.h"
#include "server/http/router.h"

namespace tritium::http {

struct ServerCounters {
  std::size_t connections = 0, busy_handlers = 0;       // now
  std::uint64_t memory_bytes = 0;                       // of bodies, now
  std::uint64_t requests = 0, refused_connections = 0;  // since the start
};

class Server {
 public:
  // Listens when this returns. Errors: usage (options), failure (the address cannot be listened at), both naming the field.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Router router);
  ~Server();  // as stop(0)
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int port() const;
  [[nodiscard]] std::string url() const;  // "http://127.0.0.1:8000"
  [[nodiscard]] ServerCounters counters() const;

  // Takes no more connections, closes streams, lets answers that are being made and sent be finished for so long, then ends what is left
  // and waits for the handlers to return. Handlers that wait for something must therefore not wait for ever. From one thread.
  void stop(double seconds);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritium::http
