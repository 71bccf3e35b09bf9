#include "server/http/session.h"

#include "base/system.h"
#include "server/http/range.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

namespace tritium::http {
namespace {

constexpr std::size_t kDiscardPiece = 64 << 10;
constexpr double kLingerSeconds = 2, kLingerUnreadSeconds = 10, kLingerAtTheEndSeconds = 0.5;

bool has_no_body(int status) { return status / 100 == 1 || status == 204 || status == 304; }

}  // namespace

std::unique_ptr<OpenFile> OpenFile::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return nullptr;
  std::unique_ptr<OpenFile> out(new OpenFile(descriptor));
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return nullptr;
  out->bytes_ = static_cast<std::uint64_t>(info.st_size);
  return out;
}

OpenFile::~OpenFile() { ::close(descriptor_); }

void Session::respond(HttpResponse response) {
  phase_ = Phase::sending;
  exchange_->status = response.status;
  release_request(*exchange_);
  if (state_->stopping) exchange_->keep_alive = false;
  if (std::holds_alternative<FileBody>(response.body)) return respond_file(response);
  if (std::holds_alternative<StreamBody>(response.body)) return respond_stream(response);
  if (std::holds_alternative<WebSocketBody>(response.body)) return respond_web_socket(response);
  respond_text(response);
}

// `fields`: about the body.
void Session::send_head(HttpResponse& response, Fields fields) {
  Fields all = answer_fields(*state_, *exchange_, response);
  all.insert(all.end(), fields.begin(), fields.end());
  all.emplace_back("connection", exchange_->keep_alive ? "keep-alive" : "close");
  exchange_->status = response.status;
  head_ = head_text(response.status, all);
}

void Session::respond_text(HttpResponse& response) {
  content_ = std::move(std::get<std::string>(response.body));
  if (has_no_body(response.status)) {
    content_.clear();
    send_head(response, {});
  } else {
    send_head(response, {{"content-length", std::to_string(content_.size())}});
  }
  if (exchange_->request.method == "HEAD") content_.clear();
  exchange_->sent = content_.size();
  write({net::buffer(head_), net::buffer(content_)}, [this] { answered(); });
}

void Session::respond_file(HttpResponse& response) {
  const FileBody body = std::move(std::get<FileBody>(response.body));
  file_ = OpenFile::open(body.file);
  if (!file_) {
    const Error error{ErrorCode::not_found, "the file is not there any more", "", ""};
    return respond(refuse(*state_, exchange_->request, {404, error}));
  }
  const HttpRequest& request = exchange_->request;
  const std::uint64_t bytes = file_->bytes();
  const FilePart part =
      response.status != 200
          ? FilePart{response.status, 0, bytes}
          : choose_part({request.header("range"), request.header("if-range"), request.header("if-none-match")}, bytes, body.etag);
  Fields fields = {{"accept-ranges", "bytes"}};
  if (!body.etag.empty()) fields.emplace_back("etag", '"' + body.etag + '"');
  if (part.status == 206)
    fields.emplace_back("content-range", fmt::format("bytes {}-{}/{}", part.first, part.first + part.length - 1, bytes));
  if (part.status == 416) {
    fields.emplace_back("content-range", fmt::format("bytes */{}", bytes));
    const Error error{ErrorCode::usage,
                      fmt::format("the range '{}' does not lie in the file, which has {} bytes", request.header("range"), bytes), "range",
                      ""};
    return respond(refuse(*state_, request, {416, error}, fields));
  }
  if (!body.download_name.empty()) fields.emplace_back("content-disposition", attachment(body.download_name));
  response.status = part.status;
  if (part.status == 304) response.content_type.clear();
  if (part.status != 304) fields.emplace_back("content-length", std::to_string(part.length));
  send_head(response, std::move(fields));
  const std::uint64_t count = request.method == "HEAD" || part.status == 304 ? 0 : part.length;
  write({net::buffer(head_)}, [this, part, count] { send_file(part.first, count); });
}

void Session::send_file(std::uint64_t offset, std::uint64_t count) {
  if (count == 0) return answered();
  arm(state_->options.limits.send_seconds);
  transport_->send_some_of(file_->descriptor(), offset, count,
                           [self = shared_from_this(), offset, count](error_code error, std::size_t sent) {
                             if (self->phase_ != Phase::sending) return;
                             self->exchange_->sent += sent;
                             if (error) return self->close();
                             self->send_file(offset + sent, count - sent);
                           });
}

// Opens the channel on a thread that may block; `then` follows on the strand.
void Session::open_channel(std::function<void(std::shared_ptr<Channel>)> open, std::function<void()> then) {
  const auto channel = channel_;
  const bool accepted = state_->pool.submit([self = shared_from_this(), channel, open = std::move(open), then = std::move(then)] {
    try {
      open(channel);
    } catch (...) { channel->close(); }
    if (then) net::post(self->transport_->executor(), then);
  });
  if (!accepted) channel->close();
}

void Session::respond_stream(HttpResponse& response) {
  auto open = std::move(std::get<StreamBody>(response.body).open);
  chunked_ = exchange_->parser.version() >= 11;
  beats_ = response.content_type == "text/event-stream";
  if (!chunked_) exchange_->keep_alive = false;
  send_head(response, chunked_ ? Fields{{"transfer-encoding", "chunked"}} : Fields{});
  const bool head_only = exchange_->request.method == "HEAD";
  write({net::buffer(head_)}, [this, open = std::move(open), head_only]() mutable {
    if (head_only) return answered();
    phase_ = Phase::streaming;
    keep_ = shared_from_this();
    arm(0);
    channel_ = std::make_shared<Channel>(state_->options.limits.backlog_bytes, waker());
    open_channel([open = std::move(open)](std::shared_ptr<Channel> channel) { open(stream_of(std::move(channel))); }, nullptr);
    if (beats_) heartbeat();
    read_more();  // to learn when the client goes
    if (state_->stopping) channel_->close();
  });
}

void Session::flush_stream() {
  if (phase_ != Phase::streaming || writing_) return;
  if (channel_->overrun()) return close();
  const bool last = channel_->closed();  // asked first: what is pushed before it is closed is taken below
  std::deque<Channel::Message> messages = channel_->take();
  content_.clear();
  for (const auto& message : messages) content_ += message.bytes;
  const std::size_t bytes = content_.size();
  if (chunked_ && bytes > 0) content_ = fmt::format("{:x}\r\n", bytes) + content_ + "\r\n";
  if (chunked_ && last) content_ += "0\r\n\r\n";
  if (content_.empty()) {
    if (last) answered();
    return;
  }
  write({net::buffer(content_)}, [this, bytes, last] {
    exchange_->sent += bytes;
    channel_->sent(bytes);
    arm(0);
    if (last) return answered();
    flush_stream();
  });
}

void Session::heartbeat() {
  heartbeat_timer_.expires_after(std::chrono::milliseconds(static_cast<std::int64_t>(state_->options.limits.heartbeat_seconds * 1e3)));
  heartbeat_timer_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (!self || error || self->phase_ != Phase::streaming) return;
    if (!self->writing_) self->channel_->push(": \n\n", false);
    self->heartbeat();
  });
}

void Session::respond_web_socket(HttpResponse& response) {
  if (!is_web_socket_request(*exchange_)) {
    const Error error{ErrorCode::usage, "this path speaks WebSocket, version 13, only", "", "open it with a WebSocket client"};
    return respond(refuse(*state_, exchange_->request, {426, error}, {{"upgrade", "websocket"}, {"sec-websocket-version", "13"}}));
  }
  auto open = std::move(std::get<WebSocketBody>(response.body).open);
  phase_ = Phase::web_socket;
  exchange_->status = response.status = 101;
  arm(0);
  channel_ = std::make_shared<Channel>(state_->options.limits.backlog_bytes, waker());
  WebSocketSettings settings{std::string(exchange_->request.header("sec-websocket-key")), answer_fields(*state_, *exchange_, response),
                             std::move(input_), state_->options.limits.message_bytes};
  link_ = run_web_socket(
      transport_, channel_, std::move(settings),
      [state = state_](std::function<void()> task) { return state->pool.submit(std::move(task)); },
      [self = shared_from_this(), open = std::move(open)](std::function<void()> ready) {
        if (self->phase_ != Phase::web_socket) return;  // it was closed meanwhile
        self->open_channel([open](std::shared_ptr<Channel> channel) { open(web_socket_of(std::move(channel))); }, std::move(ready));
      },
      [self = shared_from_this()](std::uint64_t bytes) {
        self->exchange_->sent = bytes;
        self->log();
        self->close();
        self->link_.reset();
      });
}

// One write at a time: `then` follows the last byte of the buffers, which stay as they are until then.
void Session::write(std::vector<net::const_buffer> buffers, std::function<void()> then) {
  if (phase_ == Phase::closed) return;
  outgoing_ = std::move(buffers);
  std::erase_if(outgoing_, [](const net::const_buffer& buffer) { return buffer.size() == 0; });
  if (outgoing_.empty()) {
    writing_ = false;
    return then();
  }
  writing_ = true;
  arm(state_->options.limits.send_seconds);
  transport_->write_some(outgoing_, [self = shared_from_this(), then = std::move(then)](error_code error, std::size_t count) {
    self->writing_ = false;
    if (self->phase_ == Phase::closed) return;
    if (error) return self->close();
    std::vector<net::const_buffer> left = std::move(self->outgoing_);
    for (net::const_buffer& buffer : left) {
      const std::size_t taken = std::min(count, buffer.size());
      buffer += taken;
      count -= taken;
    }
    self->write(std::move(left), then);
  });
}

void Session::answered() {
  const auto kept = std::move(keep_);  // until the end of this function
  log();
  heartbeat_timer_.cancel();
  file_.reset();
  if (channel_) channel_->end();
  channel_.reset();
  content_ = std::string();
  if (exchange_->keep_alive && !state_->stopping) return next_request();
  linger(exchange_->parser.has_body() ? kLingerUnreadSeconds : state_->stopping ? kLingerAtTheEndSeconds : kLingerSeconds);
}

// The client is told that nothing more comes, and gets the time to read the answer: a connection that is closed with something unread is
// reset, and the answer lost. What it still sends of a body that was refused is thrown away, up to twice the limit.
void Session::linger(double seconds) {
  phase_ = Phase::lingering;
  arm(seconds);
  discarded_ = 0;
  input_ = std::string();
  transport_->finish_sending([self = shared_from_this()](error_code, std::size_t) { self->discard(); });
}

void Session::discard() {
  if (phase_ != Phase::lingering || reading_) return;
  if (discarded_ > 2 * state_->options.limits.body_bytes) return close();
  reading_ = true;
  scratch_.resize(kDiscardPiece);
  transport_->discard_some(net::buffer(scratch_),
                           [self = shared_from_this()](error_code error, std::size_t count) { self->came(error, count); });
}

}  // namespace tritium::http
