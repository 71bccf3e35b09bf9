// A server with handlers that show what they were given.
#pragma once

#include "server/http/server.h"
#include "unit/temp_folder.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tritium::test {

class ToyServer {
 public:
  explicit ToyServer(http::ServerOptions options = {});
  [[nodiscard]] int port() const { return server_->port(); }
  http::Server& server() { return *server_; }
  [[nodiscard]] std::string clip() const { return clip_; }  // what /file holds
  [[nodiscard]] std::vector<http::AccessRecord> log();
  [[nodiscard]] std::size_t spooled() const;  // files in the folder for uploads
  // The last one that /events or /socket opened; held until the end.
  std::shared_ptr<http::Stream> stream();
  std::shared_ptr<http::WebSocket> socket();
  [[nodiscard]] int closed() const { return closed_; }  // streams and sockets that have ended

 private:
  http::Router routes();
  TempFolder folder_;
  std::string clip_;
  std::mutex mutex_;
  std::vector<http::AccessRecord> log_;
  std::vector<std::shared_ptr<http::Stream>> streams_;
  std::vector<std::shared_ptr<http::WebSocket>> sockets_;
  std::atomic<int> closed_{0};
  std::unique_ptr<http::Server> server_;
};

// Until it holds, for at most so long.
template <class Condition>
bool eventually(Condition condition, double seconds = 5) {
  for (int i = 0; i < static_cast<int>(seconds * 200); ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

}  // namespace tritium::test
