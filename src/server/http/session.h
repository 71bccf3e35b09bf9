// One connection: reads requests one after the other, has them answered, and is never longer at anything than its limits allow.
#pragma once

#include "server/http/channel.h"
#include "server/http/exchange.h"
#include "server/http/transport.h"
#include "server/http/web_socket.h"

#include <boost/asio/steady_timer.hpp>

namespace tritium::http {

// A regular file, open for reading.
class OpenFile {
 public:
  static std::unique_ptr<OpenFile> open(const std::filesystem::path& path);  // null: there is none
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
  std::uint64_t bytes_ = 0;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<ServerState> state, std::shared_ptr<Transport> transport, std::string remote);
  ~Session();

  void start();
  // From any thread. The answer that is being made is still sent, streams are closed.
  void stop();
  // From any thread. Ends the connection as it is.
  void abort();

 private:
  enum class Phase { handshake, idle, header, body, handling, sending, streaming, web_socket, lingering, closed };

  // Reading (session.cpp).
  void next_request();
  void read_more();
  void came(error_code error, std::size_t count);
  void advance();
  void header_complete();
  void read_body();
  void body_complete();
  void refuse_now(const Refusal& refusal);  // before the handler; the connection ends after it, unless the request has been read

  // Answering (session_answer.cpp).
  void respond(HttpResponse response);
  void send_head(HttpResponse& response, Fields fields);
  void respond_text(HttpResponse& response);
  void respond_file(HttpResponse& response);
  void respond_stream(HttpResponse& response);
  void respond_web_socket(HttpResponse& response);
  void write(std::vector<net::const_buffer> buffers, std::function<void()> then);
  void send_file(std::uint64_t offset, std::uint64_t count);
  void open_channel(std::function<void(std::shared_ptr<Channel>)> open, std::function<void()> then);
  void flush_stream();
  void heartbeat();
  void answered();
  void linger(double seconds);
  void discard();

  void arm(double seconds);
  void timed_out();
  void close();
  void log();
  [[nodiscard]] std::function<void()> waker();

  const std::shared_ptr<ServerState> state_;
  const std::shared_ptr<Transport> transport_;
  const std::string remote_;
  net::steady_timer timer_, heartbeat_timer_;
  std::uint64_t timer_turn_ = 0;
  Phase phase_ = Phase::handshake;

  std::vector<char> scratch_;  // that is read into
  std::string input_;          // read, not yet used
  bool reading_ = false;
  std::uint64_t discarded_ = 0;
  std::shared_ptr<Exchange> exchange_;

  std::string head_, content_;               // of the answer, as long as they are sent
  std::vector<net::const_buffer> outgoing_;  // what of them is not sent yet
  bool writing_ = false;
  std::unique_ptr<OpenFile> file_;
  std::shared_ptr<Channel> channel_;
  bool chunked_ = false, beats_ = false;
  std::shared_ptr<Session> keep_;  // itself, as long as it streams: there may be nothing to wait for then
  std::shared_ptr<WebSocketLink> link_;
};

}  // namespace tritium::http
