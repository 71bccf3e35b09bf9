#include "pipeline/frame_queue.h"

#include <new>
#include <system_error>
#include <utility>

namespace tritium {

FrameQueue::FrameQueue(PictureSink sink, std::size_t most) : sink_(std::move(sink)), most_(most) {
  if (most_ == 0) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) { most_ = 0; }  // slower, but it works
}

FrameQueue::~FrameQueue() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
  }
  end();
}

Result<void> FrameQueue::add(std::vector<std::uint8_t> rgb) {
  if (most_ == 0) {
    if (state_.ok()) state_ = take(std::move(rgb));
    return state_;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.size() < most_ || !state_.ok(); });
  if (!state_.ok()) return state_;
  waiting_.push_back(std::move(rgb));
  changed_.notify_all();
  return {};
}

// Called by one thread at a time.
Result<void> FrameQueue::take(std::vector<std::uint8_t> rgb) const {
  try {
    return sink_(std::move(rgb));
  } catch (const std::bad_alloc&) { return Error{ErrorCode::does_not_fit, "out of memory", "", ""}; }
}

Result<void> FrameQueue::finish() {
  end();
  return state_;
}

void FrameQueue::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void FrameQueue::run() {
  std::unique_lock lock(mutex_);
  while (state_.ok()) {
    changed_.wait(lock, [this] { return !waiting_.empty() || ended_; });
    if (waiting_.empty()) return;
    std::vector<std::uint8_t> rgb = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.notify_all();
    lock.unlock();
    Result<void> taken = take(std::move(rgb));
    lock.lock();
    state_ = std::move(taken);
  }
  waiting_.clear();
  changed_.notify_all();
}

}  // namespace tritium
