// A flag that asks long work to stop. Safe to set from a signal handler and from any thread.
#pragma once

#include <tritium/result.h>

#include <atomic>

namespace tritium {

class CancelToken {
 public:
  void cancel() noexcept { flag_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool cancelled() const noexcept { return flag_.load(std::memory_order_relaxed); }

  // Error `interrupted` naming the stage once cancel() was called.
  [[nodiscard]] Result<void> check(const char* stage) const {
    if (!cancelled()) return {};
    return Error{ErrorCode::interrupted, std::string("interrupted during ") + stage, "", ""};
  }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free);
  std::atomic<bool> flag_{false};
};

}  // namespace tritium
