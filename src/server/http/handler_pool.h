// Threads for handlers, which may block. A thread is started when a task finds none that is free.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tritium::http {

class HandlerPool {
 public:
  HandlerPool(int threads, std::size_t waiting) : max_threads_(threads), max_waiting_(waiting) {}
  ~HandlerPool() { stop(); }
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  // False: too many are waiting, or it has been stopped. Tasks must not throw.
  bool submit(std::function<void()> task);
  // What waits is still done.
  void stop();
  [[nodiscard]] std::size_t busy() const;

 private:
  void work();
  const int max_threads_;
  const std::size_t max_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  std::size_t active_ = 0;  // threads that are at a task
  bool stopping_ = false;
};

}  // namespace tritium::http
