#include "device/rpc_server.h"

#include "base/files.h"
#include "base/system.h"
#include "base/try.h"
#include "device/backends.h"
#include "device/rpc.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

namespace tritium::rpc {
namespace {

Error cannot_listen(const ServerOptions& options, const std::string& why) {
  return Error{ErrorCode::usage, fmt::format("cannot listen on {}:{}: {}", options.host, options.port, why), "port", ""};
}

Result<sockaddr_in> listening_address(const ServerOptions& options) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (inet_pton(AF_INET, options.host == "localhost" ? "127.0.0.1" : options.host.c_str(), &address.sin_addr) != 1)
    return Error{ErrorCode::usage, fmt::format("'{}' is not an IPv4 address", options.host), "host", "such as 127.0.0.1"};
  constexpr std::uint32_t kLoopback = 127;
  if (ntohl(address.sin_addr.s_addr) >> 24 != kLoopback && !options.beyond_loopback)
    return Error{ErrorCode::usage, fmt::format("{} can be reached from other machines, and the protocol knows no passwords", options.host),
                 "host", "in a trusted network, add --beyond-loopback"};
  if (options.port < 0 || options.port > 65535)
    return Error{ErrorCode::usage, fmt::format("{} is not a port, 0 to 65535", options.port), "port", ""};
  address.sin_port = htons(static_cast<std::uint16_t>(options.port));
  return address;
}

// Finds out whether the port is free, and chooses one for 0.
Result<void> choose_port(const ServerOptions& options, sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return cannot_listen(options, system_message(errno));
  constexpr int kOn = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
  socklen_t size = sizeof address;
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int failed = errno;
  close(fd);
  if (!bound) return cannot_listen(options, system_message(failed));
  return {};
}

bool accepts_connections(const sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

}  // namespace

Result<void> serve(const ServerOptions& options, const std::function<void(const std::string&)>& ready) {
  TRITIUM_TRY_ASSIGN(sockaddr_in address, listening_address(options));
  TRITIUM_TRY_ASSIGN(ggml_backend_dev_t device, backends::find(options.device));
  ggml_backend_reg_t backend = backends::named("RPC");
  using StartServer =
      void (*)(const char* endpoint, const char* cache, std::size_t threads, std::size_t count, ggml_backend_dev_t* devices);
  const auto start = backend != nullptr ? backends::function<StartServer>(backend, "ggml_backend_rpc_start_server") : nullptr;
  if (start == nullptr) return Error{ErrorCode::device, "ggml's RPC backend is not installed", "", "install libggml0-backend-rpc"};
  TRITIUM_TRY(choose_port(options, address));

  char number[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address.sin_addr, number, sizeof number);
  const Endpoint endpoint{number, ntohs(address.sin_port), 0};
  std::atomic<bool> ended = false;
  std::thread announcer([&] {
    while (!ended && !accepts_connections(address)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!ended) ready(endpoint.name());
  });
  const int threads = options.threads > 0 ? options.threads : usable_cpus();
  start(endpoint.address().c_str(), nullptr, static_cast<std::size_t>(threads), 1, &device);
  ended = true;
  announcer.join();
  return cannot_listen(options, "the server ended");
}

}  // namespace tritium::rpc
