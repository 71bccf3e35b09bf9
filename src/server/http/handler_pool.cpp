#include "server/http/handler_pool.h"

#include <system_error>

namespace tritium::http {

bool HandlerPool::submit(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  const std::size_t free = threads_.size() - active_;
  if (free <= tasks_.size() && threads_.size() < static_cast<std::size_t>(max_threads_)) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // no more threads to be had
      if (threads_.empty()) return false;
    }
  } else if (tasks_.size() >= max_waiting_ + free) {
    return false;
  }
  tasks_.push_back(std::move(task));
  wake_.notify_one();
  return true;
}

void HandlerPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    ++active_;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds is let go before the wait
    lock.lock();
    --active_;
  }
}

void HandlerPool::stop() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

std::size_t HandlerPool::busy() const {
  const std::lock_guard lock(mutex_);
  return active_ + tasks_.size();
}

}  // namespace tritium::http
