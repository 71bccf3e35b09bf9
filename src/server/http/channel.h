// What a client of an answer without an end is still to get: filled by any thread, emptied by the connection's.
#pragma once

#include "server/http/message.h"

#include <atomic>
#include <deque>
#include <mutex>

namespace tritium::http {

class Channel {
 public:
  struct Message {
    std::string bytes;
    bool binary = false;
  };
  // `wake`: tells the connection, from any thread, that something has changed. It must not keep the connection alive.
  Channel(std::uint64_t limit, std::function<void()> wake) : limit_(limit), wake_(std::move(wake)) {}

  // Of those who write.
  bool push(std::string bytes, bool binary);
  void close();  // what has been pushed is still sent
  [[nodiscard]] bool closed() const;
  void on_close(std::function<void()> callback);
  void on_text(std::function<void(const std::string&)> callback);

  // Of the connection.
  std::deque<Message> take();      // all there is
  void sent(std::uint64_t bytes);  // of what was taken
  void text_came(const std::string& text);
  void end();                          // the client is gone
  [[nodiscard]] bool overrun() const;  // it fell too far behind

 private:
  void finish(std::unique_lock<std::mutex> lock);
  const std::uint64_t limit_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::deque<Message> pending_;
  std::uint64_t backlog_ = 0;  // pending, and taken but not sent
  bool closed_ = false, overrun_ = false;
  std::vector<std::function<void()>> close_callbacks_;
  std::shared_ptr<std::function<void(const std::string&)>> text_callback_;
};

// What handlers hold; the channel is closed when the last of them lets go.
std::shared_ptr<Stream> stream_of(std::shared_ptr<Channel> channel);
std::shared_ptr<WebSocket> web_socket_of(std::shared_ptr<Channel> channel);

}  // namespace tritium::http
