// Devices of other processes and machines, by ggml's RPC protocol. It is neither encrypted nor authenticated: only for trusted networks.
//
// A name is "rpc://HOST:PORT", with "/N" behind it for another device of the server than its first. Name and number of the host are
// looked up once; IPv4 only, as the protocol's library.
//
// ggml ends the process when a connection is lost or cannot be made. Therefore a server is asked for a sign of life before the library is
// told of it, and connections that are lost while in use can be named afterwards (lost_connections()).
#pragma once

#include <tritium/result.h>

#include <ggml-backend.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tritium::rpc {

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  std::size_t device = 0;  // of the server

  [[nodiscard]] std::string address() const;  // "HOST:PORT"
  [[nodiscard]] std::string name() const;     // "rpc://HOST:PORT", "rpc://HOST:PORT/1"
};

// Whether the name is meant as one of these: it begins with "rpc://", in upper or lower case.
bool is_remote(std::string_view name);
// Errors: usage (field "device").
Result<Endpoint> parse_endpoint(std::string_view name);

// Seconds within which a server must answer.
inline constexpr int kAnswerSeconds = 5;

// The device, connected. Errors (device): no RPC backend, host unknown, nobody listens, no answer in time (a server serves one process at a
// time), fewer devices. They name the server.
Result<ggml_backend_dev_t> connect(const Endpoint& endpoint);

// While one exists, its connection is watched: a machine that vanished without a word is noticed within seconds, and lost_connections()
// knows of it. To be made when the backend of the device is initialised, and destroyed with it.
class Watch {
 public:
  explicit Watch(const Endpoint& endpoint);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  std::uint64_t id_ = 0;
};

// Names of the watched devices whose server closed the connection or went away. For the report of a process that ggml is about to end.
std::vector<std::string> lost_connections();

}  // namespace tritium::rpc
