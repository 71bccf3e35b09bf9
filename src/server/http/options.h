// What a server is told when it starts.
#pragma once

#include "server/http/access.h"
#include "server/http/keys.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tritium::http {

// Beyond these a request is refused: 408, 413, 414, 431, 503. Bytes unless said otherwise.
struct ServerLimits {
  std::size_t target_bytes = 8 << 10;   // of the path with its query
  std::size_t header_bytes = 32 << 10;  // of request line and header fields
  std::size_t header_fields = 100;
  std::uint64_t body_bytes = 64u << 20;        // of a request
  std::uint64_t memory_bytes = 1024ull << 20;  // of the bodies of all requests that are kept in memory
  std::size_t form_fields = 256;               // of a form or a query
  std::uint64_t field_bytes = 16u << 20;       // of a field of a form that is not a file
  std::size_t message_bytes = 1 << 20;         // of a WebSocket message from a client
  std::size_t connections = 1024;
  std::uint64_t backlog_bytes = 1 << 20;  // that a client of a stream may be behind
  double header_seconds = 15;             // from the first byte of a request to the end of its header; also for the TLS handshake
  double body_seconds = 30;               // without a byte of a body; and the body must come at 1 KiB/s over its whole length
  double idle_seconds = 75;               // between requests
  double send_seconds = 60;               // without the client taking a byte of an answer
  double heartbeat_seconds = 15;          // between comments in an event stream that has nothing to say
};

struct ServerOptions {
  std::string address = "127.0.0.1";                              // or "localhost", "::1", "0.0.0.0", "::"
  int port = 0;                                                   // 0: one that is free
  std::filesystem::path spool;                                    // folder for uploads; made when missing
  std::filesystem::path certificate, private_key;                 // PEM files; both or none
  std::vector<std::string> hosts, origins;                        // see AccessPolicy
  std::shared_ptr<ApiKeys> keys;                                  // null: everybody may use the server
  std::vector<std::string> public_paths = {"/health", "/ready"};  // need no key; "/ui/*" is everything below "/ui/"
  std::function<void(const AccessRecord&)> access_log;            // called from any thread
  int io_threads = 2;
  int handler_threads = 64;            // at most; started when they are needed
  std::size_t waiting_requests = 256;  // for a handler thread; more are answered 503
  ServerLimits limits;
};

}  // namespace tritium::http
