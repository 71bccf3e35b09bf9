#include "device/rpc.h"

#include "base/files.h"
#include "base/try.h"
#include "device/backends.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>

namespace tritium::rpc {
namespace {

constexpr std::string_view kScheme = "rpc://";

Error refused(const Endpoint& endpoint, std::string what, std::string hint = {}) {
  return Error{ErrorCode::device, fmt::format("the server of device '{}' {}", endpoint.name(), std::move(what)), "device", std::move(hint)};
}

// All of `text` as a number; nothing if it is none.
std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc{} && end == text.data() + text.size() && !text.empty() ? std::optional(value) : std::nullopt;
}

struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) close(fd);
  }
};

Result<sockaddr_in> look_up(const Endpoint& endpoint) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &found) != 0 || found == nullptr)
    return refused(endpoint, "cannot be found: its host name is unknown");
  sockaddr_in out = *reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  freeaddrinfo(found);
  out.sin_port = htons(endpoint.port);
  return out;
}

// Milliseconds until the deadline, at least 0.
int remaining(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

// A connection that says nothing and ends: a server that is free closes it in turn, one that serves somebody else lets it wait.
Result<void> expect_answer(const Endpoint& endpoint) {
  TRITIUM_TRY_ASSIGN(const sockaddr_in address, look_up(endpoint));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kAnswerSeconds);
  const Socket socket{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (socket.fd < 0) return refused(endpoint, "cannot be reached: " + system_message(errno));
  pollfd wait{socket.fd, POLLOUT, 0};
  if (::connect(socket.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    int failed = errno;
    socklen_t size = sizeof failed;
    if (failed == EINPROGRESS && poll(&wait, 1, remaining(deadline)) > 0) getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed == EINPROGRESS) failed = ETIMEDOUT;
    if (failed != 0) return refused(endpoint, "cannot be reached: " + system_message(failed), "start it with 'tritium rpc-server'");
  }
  shutdown(socket.fd, SHUT_WR);
  wait.events = POLLIN;
  if (poll(&wait, 1, remaining(deadline)) <= 0)
    return refused(endpoint, fmt::format("does not answer within {} s", kAnswerSeconds), "it serves one process at a time");
  return {};
}

bool same(const sockaddr_in& a, const sockaddr_in& b) { return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr; }

// The sockets of this process that are connected to the server.
std::vector<int> sockets_to(const sockaddr_in& server) {
  std::vector<int> out;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    const std::optional<int> fd = parse_number(entry.path().filename().native());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (!fd || getpeername(*fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family == AF_INET && peer.sin_port == server.sin_port && peer.sin_addr.s_addr == server.sin_addr.s_addr)
      out.push_back(*fd);
  }
  return out;
}

// The kernel asks a silent peer for a sign of life, so that waiting for one that lost its power or its network ends.
void keep_alive(int fd) {
  constexpr int kOn = 1, kIdleSeconds = 5, kIntervalSeconds = 2, kProbes = 3, kUnansweredMilliseconds = 15000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalSeconds, sizeof kIntervalSeconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnansweredMilliseconds, sizeof kUnansweredMilliseconds);
}

// Programs started from here must not hold the connection open.
void close_on_exec(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

struct Watched {
  std::string name;
  sockaddr_in server{};
  std::vector<int> sockets;
};

struct Watches {
  std::mutex mutex;
  std::uint64_t next = 1;
  std::map<std::uint64_t, Watched> open;
};

Watches& watches() {
  static Watches all;
  return all;
}

// Whether this process has a connection to the server, which all its devices share.
bool in_use(const sockaddr_in& server) {
  const std::lock_guard lock(watches().mutex);
  return std::any_of(watches().open.begin(), watches().open.end(), [&](const auto& each) { return same(each.second.server, server); });
}

}  // namespace

std::string Endpoint::address() const { return fmt::format("{}:{}", host, port); }
std::string Endpoint::name() const { return fmt::format("{}{}{}", kScheme, address(), device == 0 ? "" : fmt::format("/{}", device)); }

bool is_remote(std::string_view name) {
  return name.size() >= kScheme.size() && strncasecmp(name.data(), kScheme.data(), kScheme.size()) == 0;
}

Result<Endpoint> parse_endpoint(std::string_view name) {
  const auto fail = [&] {
    return Error{ErrorCode::usage, fmt::format("'{}' is not rpc://HOST:PORT or rpc://HOST:PORT/DEVICE", name), "device",
                 "such as rpc://127.0.0.1:50052"};
  };
  if (!is_remote(name)) return fail();
  std::string_view rest = name.substr(kScheme.size());
  Endpoint out;
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const std::optional<int> device = parse_number(rest.substr(slash + 1));
    if (!device || *device < 0) return fail();
    out.device = static_cast<std::size_t>(*device);
    rest = rest.substr(0, slash);
  }
  const std::size_t colon = rest.find(':');
  if (colon == std::string_view::npos || colon == 0) return fail();
  const std::optional<int> port = parse_number(rest.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) return fail();
  out.host = rest.substr(0, colon);
  out.port = static_cast<std::uint16_t>(*port);
  return out;
}

Result<ggml_backend_dev_t> connect(const Endpoint& endpoint) {
  ggml_backend_reg_t backend = backends::named("RPC");
  using AddServer = ggml_backend_reg_t (*)(const char* endpoint);
  const auto add_server = backend != nullptr ? backends::function<AddServer>(backend, "ggml_backend_rpc_add_server") : nullptr;
  if (add_server == nullptr)
    return Error{ErrorCode::device, fmt::format("device '{}' needs ggml's RPC backend, which is not installed", endpoint.name()), "device",
                 "install libggml0-backend-rpc"};
  // One at a time: while the library holds a connection, the server answers nobody else, us included.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  TRITIUM_TRY_ASSIGN(const sockaddr_in address, look_up(endpoint));
  if (!in_use(address)) TRITIUM_TRY(expect_answer(endpoint));
  // By number, so that two names of one server share a connection.
  char number[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address.sin_addr, number, sizeof number);
  ggml_backend_reg_t server = add_server(fmt::format("{}:{}", number, endpoint.port).c_str());
  const std::size_t devices = server != nullptr ? ggml_backend_reg_dev_count(server) : 0;
  if (endpoint.device >= devices) return refused(endpoint, fmt::format("has {} devices, counted from 0", devices));
  return ggml_backend_reg_dev_get(server, endpoint.device);
}

Watch::Watch(const Endpoint& endpoint) {
  Watched watched{endpoint.name(), {}, {}};
  if (const auto address = look_up(endpoint); address.ok()) watched.server = *address;
  watched.sockets = sockets_to(watched.server);
  for (const int fd : watched.sockets) {
    keep_alive(fd);
    close_on_exec(fd);
  }
  const std::lock_guard lock(watches().mutex);
  id_ = watches().next++;
  watches().open.emplace(id_, std::move(watched));
}

Watch::~Watch() {
  const std::lock_guard lock(watches().mutex);
  watches().open.erase(id_);
}

std::vector<std::string> lost_connections() {
  std::vector<std::string> out;
  const std::lock_guard lock(watches().mutex);
  for (const auto& [id, watched] : watches().open)
    for (const int fd : watched.sockets) {
      pollfd state{fd, POLLRDHUP, 0};
      if (poll(&state, 1, 0) > 0 && std::find(out.begin(), out.end(), watched.name) == out.end()) out.push_back(watched.name);
    }
  return out;
}

}  // namespace tritium::rpc
