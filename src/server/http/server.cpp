#include "server/http/server.h"

#include "base/files.h"
#include "base/try.h"
#include "server/http/session.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/strand.hpp>
#include <thread>

namespace tritium::http {
namespace {

using net::ip::tcp;

Error bad_option(const char* field, std::string message, std::string hint = "") {
  return {ErrorCode::usage, std::move(message), field, std::move(hint)};
}

Result<tcp::endpoint> endpoint_of(const ServerOptions& options) {
  if (options.port < 0 || options.port > 65535)
    return bad_option("port", fmt::format("{} is not a port; allowed: 0 to 65535", options.port));
  std::string text = options.address == "localhost" ? "127.0.0.1" : options.address;
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  error_code error;
  const auto address = net::ip::make_address(text, error);
  if (error)
    return bad_option("address", fmt::format("'{}' is not an address of this machine", options.address),
                      "use 127.0.0.1, 0.0.0.0, ::1 or ::");
  return tcp::endpoint(address, static_cast<unsigned short>(options.port));
}

Result<void> make_spool(const std::filesystem::path& folder) {
  if (folder.empty()) return bad_option("spool", "the folder for uploads is not named");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  if (error) return bad_option("spool", fmt::format("cannot make the folder '{}': {}", folder.string(), error.message()));
  return {};
}

Result<std::unique_ptr<net::ssl::context>> tls_of(const ServerOptions& options) {
  if (options.certificate.empty() && options.private_key.empty()) return std::unique_ptr<net::ssl::context>();
  if (options.certificate.empty() || options.private_key.empty())
    return bad_option("certificate", "certificate and private key are given together or not at all");
  auto out = std::make_unique<net::ssl::context>(net::ssl::context::tls_server);
  error_code error;
  out->set_options(net::ssl::context::default_workarounds | net::ssl::context::no_sslv2 | net::ssl::context::no_sslv3 |
                       net::ssl::context::no_tlsv1 | net::ssl::context::no_tlsv1_1 | net::ssl::context::no_compression,
                   error);
  ::SSL_CTX_set_options(out->native_handle(), SSL_OP_NO_RENEGOTIATION);
  ::SSL_CTX_set_mode(out->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  out->use_certificate_chain_file(options.certificate.string(), error);
  if (error)
    return bad_option("certificate", fmt::format("cannot use '{}': {}", options.certificate.string(), error.message()),
                      "a PEM file is needed");
  out->use_private_key_file(options.private_key.string(), net::ssl::context::pem, error);
  if (error)
    return bad_option("private_key", fmt::format("cannot use '{}': {}", options.private_key.string(), error.message()),
                      "a PEM file that belongs to the certificate is needed");
  return out;
}

// A connection that broke must not end the process when a file is being sent on it.
void block_sigpipe() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

class Server::Impl {
 public:
  Impl(std::shared_ptr<ServerState> state, std::unique_ptr<net::ssl::context> tls)
      : state_(std::move(state)),
        tls_(std::move(tls)),
        acceptor_(net::make_strand(state_->io)),
        retry_(acceptor_.get_executor()),
        work_(net::make_work_guard(state_->io)) {}

  Result<void> listen(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
    if (!error) endpoint_ = acceptor_.local_endpoint(error);
    if (!error) return {};
    const bool taken = error == net::error::address_in_use;
    return Error{ErrorCode::failure,
                 fmt::format("cannot listen at {} port {}: {}", endpoint.address().to_string(), endpoint.port(), error.message()),
                 taken || error == net::error::access_denied ? "port" : "address",
                 taken ? "end the other program, or choose another port" : ""};
  }

  void run() {
    for (int i = 0; i < std::max(1, state_->options.io_threads); ++i)
      threads_.emplace_back([this] {
        block_sigpipe();
        serve();
      });
    net::post(acceptor_.get_executor(), [this] { accept(); });
  }

  void stop(double seconds) {
    if (threads_.empty()) return;
    state_->stopping = true;
    net::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      retry_.cancel();
    });
    for (const auto& session : sessions()) session->stop();
    wait(seconds);
    for (const auto& session : sessions()) session->abort();
    state_->pool.stop();
    for (const auto& session : sessions()) session->abort();
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  [[nodiscard]] const tcp::endpoint& endpoint() const { return endpoint_; }
  [[nodiscard]] bool has_tls() const { return tls_ != nullptr; }
  [[nodiscard]] const ServerState& state() const { return *state_; }

 private:
  void serve() {
    while (true) {
      try {
        state_->io.run();
        return;
      } catch (const std::exception&) {  // out of memory, at worst: the connection concerned is lost, the others go on
      }
    }
  }

  void accept() {
    acceptor_.async_accept(net::make_strand(state_->io), [this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error) {
        welcome(std::move(socket));
        return accept();
      }
      retry_.expires_after(std::chrono::milliseconds(100));  // no more descriptors, mostly
      retry_.async_wait([this](error_code cancelled) {
        if (!cancelled) accept();
      });
    });
  }

  void welcome(tcp::socket socket) {
    error_code error;
    socket.set_option(tcp::no_delay(true), error);
    const tcp::endpoint remote = socket.remote_endpoint(error);
    if (error) return;
    if (count() >= state_->options.limits.connections) return turn_away(std::move(socket));
    auto transport = tls_ ? tls_transport(std::move(socket), *tls_) : plain_transport(std::move(socket));
    const auto session = std::make_shared<Session>(state_, std::move(transport), remote.address().to_string());
    {
      const std::lock_guard lock(state_->mutex);
      state_->sessions[session.get()] = session;
    }
    session->start();
  }

  // One attempt to say why, without waiting.
  void turn_away(tcp::socket socket) {
    ++state_->refused;
    if (tls_) return;
    constexpr std::string_view kBody = R"({"error":{"message":"too many connections are open"}})";
    const std::string answer = head_text(503, {{"retry-after", "5"},
                                               {"content-type", "application/json"},
                                               {"connection", "close"},
                                               {"content-length", std::to_string(kBody.size())}}) +
                               std::string(kBody);
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(net::buffer(answer), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
    char request[4096];  // what is unread would turn the end into a reset
    socket.read_some(net::buffer(request), ignored);
  }

  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(state_->mutex);
    return state_->sessions.size();
  }
  std::vector<std::shared_ptr<Session>> sessions() {
    std::vector<std::shared_ptr<Session>> out;
    const std::lock_guard lock(state_->mutex);
    for (const auto& [address, weak] : state_->sessions)
      if (auto session = weak.lock()) out.push_back(std::move(session));
    return out;
  }
  void wait(double seconds) {
    std::unique_lock lock(state_->mutex);
    state_->session_gone.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return state_->sessions.empty(); });
  }

  const std::shared_ptr<ServerState> state_;
  const std::unique_ptr<net::ssl::context> tls_;
  tcp::acceptor acceptor_;
  net::steady_timer retry_;
  tcp::endpoint endpoint_;
  net::executor_work_guard<net::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { stop(0); }

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Router router) {
  TRITIUM_TRY_ASSIGN(const tcp::endpoint endpoint, endpoint_of(options));
  TRITIUM_TRY(make_spool(options.spool));
  try {
    TRITIUM_TRY_ASSIGN(auto tls, tls_of(options));
    auto state = std::make_shared<ServerState>(std::move(options), std::move(router), endpoint.address().is_loopback());
    auto impl = std::make_unique<Impl>(std::move(state), std::move(tls));
    TRITIUM_TRY(impl->listen(endpoint));
    impl->run();
    return std::unique_ptr<Server>(new Server(std::move(impl)));
  } catch (const std::exception& exception) {
    return Error{ErrorCode::failure, fmt::format("the server cannot be started: {}", exception.what()), "", ""};
  }
}

int Server::port() const { return impl_->endpoint().port(); }

std::string Server::url() const {
  const auto address = impl_->endpoint().address();
  const std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return fmt::format("{}://{}:{}", impl_->has_tls() ? "https" : "http", host, port());
}

ServerCounters Server::counters() const {
  const ServerState& state = impl_->state();
  const std::lock_guard lock(state.mutex);
  return {state.sessions.size(), state.pool.busy(), state.memory_used, state.requests, state.refused};
}

void Server::stop(double seconds) {
  if (!impl_) return;
  impl_->stop(seconds);
}

}  // namespace tritium::http
