#include "server/http/channel.h"

#include <utility>

namespace tritium::http {
namespace {

// Nothing that a callback throws may reach the threads of the connections.
template <class Function, class... Arguments>
void call(const Function& function, const Arguments&... arguments) {
  try {
    if (function) function(arguments...);
  } catch (...) {  // the answer is on its way already; there is nobody to tell
  }
}

class ChannelStream : public Stream {
 public:
  explicit ChannelStream(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
  ~ChannelStream() override { channel_->close(); }
  bool write(std::string bytes) override { return channel_->push(std::move(bytes), false); }
  void close() override { channel_->close(); }
  [[nodiscard]] bool closed() const override { return channel_->closed(); }
  void on_close(std::function<void()> callback) override { channel_->on_close(std::move(callback)); }

 private:
  std::shared_ptr<Channel> channel_;
};

class ChannelWebSocket : public WebSocket {
 public:
  explicit ChannelWebSocket(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
  ~ChannelWebSocket() override { channel_->close(); }
  bool send_text(std::string text) override { return channel_->push(std::move(text), false); }
  bool send_binary(std::string bytes) override { return channel_->push(std::move(bytes), true); }
  void close() override { channel_->close(); }
  void on_text(std::function<void(const std::string&)> callback) override { channel_->on_text(std::move(callback)); }
  void on_close(std::function<void()> callback) override { channel_->on_close(std::move(callback)); }

 private:
  std::shared_ptr<Channel> channel_;
};

}  // namespace

bool Channel::push(std::string bytes, bool binary) {
  std::unique_lock lock(mutex_);
  if (closed_) return false;
  if (backlog_ > limit_) {
    overrun_ = true;
    pending_.clear();
    finish(std::move(lock));
    return false;
  }
  backlog_ += bytes.size();
  pending_.push_back({std::move(bytes), binary});
  const bool first = pending_.size() == 1;
  lock.unlock();
  if (first) wake_();
  return true;
}

void Channel::close() {
  std::unique_lock lock(mutex_);
  if (!closed_) finish(std::move(lock));
}

void Channel::end() {
  std::unique_lock lock(mutex_);
  pending_.clear();
  if (!closed_) finish(std::move(lock));
}

void Channel::finish(std::unique_lock<std::mutex> lock) {
  closed_ = true;
  const auto callbacks = std::move(close_callbacks_);
  close_callbacks_.clear();
  const auto text = std::move(text_callback_);  // it may hold what holds this channel
  lock.unlock();
  wake_();
  for (const auto& callback : callbacks) call(callback);
}

bool Channel::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

bool Channel::overrun() const {
  const std::lock_guard lock(mutex_);
  return overrun_;
}

void Channel::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) return close_callbacks_.push_back(std::move(callback));
  }
  call(callback);
}

void Channel::on_text(std::function<void(const std::string&)> callback) {
  const std::lock_guard lock(mutex_);
  if (!closed_) text_callback_ = std::make_shared<std::function<void(const std::string&)>>(std::move(callback));
}

std::deque<Channel::Message> Channel::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(pending_, {});
}

void Channel::sent(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  backlog_ -= bytes;
}

void Channel::text_came(const std::string& text) {
  std::shared_ptr<std::function<void(const std::string&)>> callback;
  {
    const std::lock_guard lock(mutex_);
    callback = text_callback_;
  }
  if (callback) call(*callback, text);
}

std::shared_ptr<Stream> stream_of(std::shared_ptr<Channel> channel) { return std::make_shared<ChannelStream>(std::move(channel)); }
std::shared_ptr<WebSocket> web_socket_of(std::shared_ptr<Channel> channel) {
  return std::make_shared<ChannelWebSocket>(std::move(channel));
}

}  // namespace tritium::http
