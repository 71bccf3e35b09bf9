#include "server/http/transport.h"

#include <sys/sendfile.h>
#include <unistd.h>
#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cerrno>

namespace tritium::http {
namespace {

using net::ip::tcp;

// sendfile() and pread() at once: large enough to be fast, small enough that other connections are not kept waiting.
constexpr std::size_t kPiece = 256 << 10;

error_code system_error(int code) { return {code, boost::system::system_category()}; }

void close_socket(tcp::socket& socket) {
  error_code ignored;
  socket.cancel(ignored);
  socket.close(ignored);
}

class PlainTransport : public Transport, public std::enable_shared_from_this<PlainTransport> {
 public:
  explicit PlainTransport(tcp::socket socket) : socket_(std::move(socket)) {}

  net::any_io_executor executor() override { return socket_.get_executor(); }
  void handshake(Done done) override {
    net::post(executor(), [done = std::move(done)] { done({}, 0); });
  }
  void read_some(net::mutable_buffer buffer, Done done) override { socket_.async_read_some(buffer, std::move(done)); }
  void write_some(const std::vector<net::const_buffer>& buffers, Done done) override { socket_.async_write_some(buffers, std::move(done)); }

  // The file's bytes go from the page cache to the socket without passing through this process.
  void send_some_of(int file, std::uint64_t offset, std::uint64_t count, Done done) override {
    error_code error;
    socket_.native_non_blocking(true, error);
    if (error) return post(std::move(done), error, 0);
    auto position = static_cast<off_t>(offset);
    ssize_t sent = -1;
    do sent = ::sendfile(socket_.native_handle(), file, &position, std::min<std::uint64_t>(count, kPiece));
    while (sent < 0 && errno == EINTR);
    if (sent > 0) return post(std::move(done), {}, static_cast<std::size_t>(sent));
    if (sent == 0) return post(std::move(done), net::error::eof, 0);  // the file is shorter than it was
    if (errno != EAGAIN && errno != EWOULDBLOCK) return post(std::move(done), system_error(errno), 0);
    socket_.async_wait(tcp::socket::wait_write,
                       [self = shared_from_this(), file, offset, count, done = std::move(done)](error_code waited) {
                         if (waited) return done(waited, 0);
                         self->send_some_of(file, offset, count, done);
                       });
  }
  void finish_sending(Done done) override {
    error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    post(std::move(done), error, 0);
  }
  void discard_some(net::mutable_buffer buffer, Done done) override { read_some(buffer, std::move(done)); }
  void close() override { close_socket(socket_); }

 private:
  void post(Done done, error_code error, std::size_t count) {
    net::post(executor(), [done = std::move(done), error, count] { done(error, count); });
  }
  tcp::socket socket_;
};

class TlsTransport : public Transport, public std::enable_shared_from_this<TlsTransport> {
 public:
  TlsTransport(tcp::socket socket, net::ssl::context& context) : stream_(std::move(socket), context) {}

  net::any_io_executor executor() override { return stream_.next_layer().get_executor(); }
  void handshake(Done done) override {
    stream_.async_handshake(net::ssl::stream_base::server, [done = std::move(done)](error_code error) { done(error, 0); });
  }
  void read_some(net::mutable_buffer buffer, Done done) override { stream_.async_read_some(buffer, std::move(done)); }
  void write_some(const std::vector<net::const_buffer>& buffers, Done done) override { stream_.async_write_some(buffers, std::move(done)); }

  void send_some_of(int file, std::uint64_t offset, std::uint64_t count, Done done) override {
    piece_.resize(kPiece);
    const ssize_t got = ::pread(file, piece_.data(), std::min<std::uint64_t>(count, kPiece), static_cast<off_t>(offset));
    if (got <= 0) {
      const error_code error = got < 0 ? system_error(errno) : error_code(net::error::eof);
      net::post(executor(), [done = std::move(done), error] { done(error, 0); });
      return;
    }
    stream_.async_write_some(net::buffer(piece_.data(), static_cast<std::size_t>(got)), std::move(done));
  }
  void finish_sending(Done done) override {
    stream_.async_shutdown([self = shared_from_this(), done = std::move(done)](error_code error) {
      error_code ignored;
      self->stream_.next_layer().shutdown(tcp::socket::shutdown_send, ignored);
      done(error, 0);
    });
  }
  void discard_some(net::mutable_buffer buffer, Done done) override { stream_.next_layer().async_read_some(buffer, std::move(done)); }
  void close() override { close_socket(stream_.next_layer()); }

 private:
  net::ssl::stream<tcp::socket> stream_;
  std::vector<char> piece_;
};

}  // namespace

std::shared_ptr<Transport> plain_transport(tcp::socket socket) { return std::make_shared<PlainTransport>(std::move(socket)); }
std::shared_ptr<Transport> tls_transport(tcp::socket socket, net::ssl::context& context) {
  return std::make_shared<TlsTransport>(std::move(socket), context);
}

}  // namespace tritium::http
