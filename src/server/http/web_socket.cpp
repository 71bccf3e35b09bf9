#include "server/http/web_socket.h"

#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/buffers_iterator.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket/stream.hpp>

namespace tritium::http {

namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;

namespace {

// The transport as Beast wants a stream; one type for plain connections and those with TLS.
class Layer {
 public:
  using executor_type = net::any_io_executor;
  Layer(std::shared_ptr<Transport> transport, std::string early) : transport_(std::move(transport)), early_(std::move(early)) {}

  executor_type get_executor() { return transport_->executor(); }

  template <class Buffers, class Handler>
  auto async_read_some(const Buffers& buffers, Handler&& handler) {
    return net::async_initiate<Handler, void(error_code, std::size_t)>(
        [this](auto&& completion, const Buffers& target) { read(first_of<net::mutable_buffer>(target), shared(std::move(completion))); },
        handler, buffers);
  }
  template <class Buffers, class Handler>
  auto async_write_some(const Buffers& buffers, Handler&& handler) {
    return net::async_initiate<Handler, void(error_code, std::size_t)>(
        [this](auto&& completion, const Buffers& source) {
          std::vector<net::const_buffer> list;
          for (auto it = net::buffer_sequence_begin(source); it != net::buffer_sequence_end(source); ++it)
            if (const net::const_buffer buffer(*it); buffer.size() > 0) list.push_back(buffer);
          transport_->write_some(list, shared(std::move(completion)));
        },
        handler, buffers);
  }

  void close() { transport_->close(); }
  void finish_sending(Transport::Done done) { transport_->finish_sending(std::move(done)); }

 private:
  template <class Buffer, class Buffers>
  static Buffer first_of(const Buffers& buffers) {
    for (auto it = net::buffer_sequence_begin(buffers); it != net::buffer_sequence_end(buffers); ++it)
      if (const Buffer buffer(*it); buffer.size() > 0) return buffer;
    return {};
  }
  template <class Completion>
  static Transport::Done shared(Completion completion) {  // std::function wants to copy, completions want to be moved
    auto keeper = std::make_shared<Completion>(std::move(completion));
    return [keeper](error_code error, std::size_t count) { std::move (*keeper)(error, count); };
  }
  void read(net::mutable_buffer target, Transport::Done done) {
    if (early_.empty()) return transport_->read_some(target, std::move(done));
    const std::size_t count = net::buffer_copy(target, net::buffer(early_));
    early_.erase(0, count);
    net::post(get_executor(), [done = std::move(done), count] { done({}, count); });
  }

  std::shared_ptr<Transport> transport_;
  std::string early_;
};

void beast_close_socket(Layer& layer) { layer.close(); }
template <class Handler>
void async_teardown(beast::role_type, Layer& layer, Handler&& handler) {
  auto keeper = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
  layer.finish_sending([keeper](error_code, std::size_t) { (*keeper)(beast::error_code()); });
}

class BeastLink : public WebSocketLink, public std::enable_shared_from_this<BeastLink> {
 public:
  using Submit = std::function<bool(std::function<void()>)>;
  using Opened = std::function<void(std::function<void()>)>;
  using Ended = std::function<void(std::uint64_t)>;
  BeastLink(std::shared_ptr<Transport> transport, std::shared_ptr<Channel> channel, WebSocketSettings settings, Submit submit,
            Opened opened, Ended ended)
      : channel_(std::move(channel)),
        settings_(std::move(settings)),
        submit_(std::move(submit)),
        opened_(std::move(opened)),
        ended_(std::move(ended)),
        stream_(std::move(transport), std::move(settings_.early)) {}

  void start() {
    stream_.read_message_max(settings_.message_bytes);
    auto timeouts = websocket::stream_base::timeout::suggested(beast::role_type::server);
    timeouts.handshake_timeout = std::chrono::seconds(5);
    timeouts.idle_timeout = std::chrono::seconds(60);  // a ping goes out after half of it
    timeouts.keep_alive_pings = true;
    stream_.set_option(timeouts);
    stream_.set_option(websocket::stream_base::decorator([this](websocket::response_type& response) {
      for (const auto& [name, value] : settings_.fields) response.insert(name, value);
    }));
    request_.method(beast::http::verb::get);
    request_.target("/");
    request_.set(beast::http::field::host, "localhost");
    request_.set(beast::http::field::upgrade, "websocket");
    request_.set(beast::http::field::connection, "Upgrade");
    request_.set(beast::http::field::sec_websocket_version, "13");
    request_.set(beast::http::field::sec_websocket_key, settings_.key);
    stream_.async_accept(request_, [self = shared_from_this()](beast::error_code error) {
      if (error) return self->end();
      self->open_ = true;
      self->opened_([self] {
        if (!self->ending_) self->read();
      });
      self->flush();
    });
  }

  void flush() override {
    if (!open_ || writing_ || ending_) return;
    if (channel_->overrun()) return end();
    if (outgoing_.empty()) {
      closing_ = channel_->closed();  // asked first: what was pushed before it was closed is taken now
      outgoing_ = channel_->take();
    }
    if (outgoing_.empty()) {
      if (closing_) close(websocket::close_code::normal);
      return;
    }
    writing_ = true;
    stream_.binary(outgoing_.front().binary);
    stream_.async_write(net::buffer(outgoing_.front().bytes), [self = shared_from_this()](beast::error_code error, std::size_t) {
      self->writing_ = false;
      if (error) return self->end();
      const std::uint64_t bytes = self->outgoing_.front().bytes.size();
      self->outgoing_.pop_front();
      self->sent_ += bytes;
      self->channel_->sent(bytes);
      if (self->stop_code_ != websocket::close_code::none) return self->close(self->stop_code_);
      self->flush();
    });
  }

  void stop() override { close(websocket::close_code::going_away); }

 private:
  void read() {
    stream_.async_read(input_, [self = shared_from_this()](beast::error_code error, std::size_t) {
      if (error) return self->end();
      self->message();
    });
  }

  // Messages are handed over one after the other, each when the one before has been dealt with.
  void message() {
    if (!stream_.got_text()) return close(websocket::close_code::unknown_data);
    std::string text = beast::buffers_to_string(input_.data());
    input_.consume(input_.size());
    const bool accepted = submit_([self = shared_from_this(), channel = channel_, text = std::move(text)] {
      channel->text_came(text);
      net::post(self->stream_.get_executor(), [self] {
        if (!self->ending_) self->read();
      });
    });
    if (!accepted) close(websocket::close_code::try_again_later);
  }

  void close(websocket::close_code code) {
    if (!open_ || ending_) return;
    if (writing_) {
      stop_code_ = code;
      return;
    }
    ending_ = true;
    channel_->end();  // the handlers need not wait for the client's answer to this
    stream_.async_close(code, [self = shared_from_this()](beast::error_code) { self->finish(); });
  }

  void end() {
    if (ending_) return;
    ending_ = true;
    finish();
  }
  void finish() {
    if (!ended_) return;
    const Ended ended = std::exchange(ended_, nullptr);
    opened_ = nullptr;
    ended(sent_);
  }

  std::shared_ptr<Channel> channel_;
  WebSocketSettings settings_;
  Submit submit_;
  Opened opened_;
  Ended ended_;
  websocket::stream<Layer, false> stream_;  // without compression
  beast::http::request<beast::http::empty_body> request_;
  beast::flat_buffer input_;
  std::deque<Channel::Message> outgoing_;
  bool open_ = false, writing_ = false, closing_ = false, ending_ = false;
  websocket::close_code stop_code_ = websocket::close_code::none;
  std::uint64_t sent_ = 0;
};

}  // namespace

std::shared_ptr<WebSocketLink> run_web_socket(std::shared_ptr<Transport> transport, std::shared_ptr<Channel> channel,
                                              WebSocketSettings settings, std::function<bool(std::function<void()>)> submit,
                                              std::function<void(std::function<void()>)> opened, std::function<void(std::uint64_t)> ended) {
  auto out = std::make_shared<BeastLink>(std::move(transport), std::move(channel), std::move(settings), std::move(submit),
                                         std::move(opened), std::move(ended));
  out->start();
  return out;
}

}  // namespace tritium::http
