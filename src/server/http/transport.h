// A connection, plain or with TLS, so that nothing above needs to know which. Everything of one connection happens on its strand: functions
// are called there, and so are the callbacks.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace boost::asio::ssl {
class context;
}

namespace tritium::http {

namespace net = boost::asio;
using boost::system::error_code;

class Transport {
 public:
  using Done = std::function<void(error_code, std::size_t)>;
  virtual ~Transport() = default;

  virtual net::any_io_executor executor() = 0;
  virtual void handshake(Done done) = 0;  // at once for plain connections
  virtual void read_some(net::mutable_buffer buffer, Done done) = 0;
  virtual void write_some(const std::vector<net::const_buffer>& buffers, Done done) = 0;
  // `count` bytes of the file from `offset`; `done` with how many went out in this call: at least one, without an error.
  virtual void send_some_of(int file, std::uint64_t offset, std::uint64_t count, Done done) = 0;
  // Says that nothing more will be sent. After that only discard_some() may read.
  virtual void finish_sending(Done done) = 0;
  virtual void discard_some(net::mutable_buffer buffer, Done done) = 0;
  // Whatever runs ends with an error.
  virtual void close() = 0;
};

std::shared_ptr<Transport> plain_transport(net::ip::tcp::socket socket);
std::shared_ptr<Transport> tls_transport(net::ip::tcp::socket socket, net::ssl::context& context);

}  // namespace tritium::http
