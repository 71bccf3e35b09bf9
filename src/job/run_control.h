// The hand on a running job: who wants it to stop, and why.
#pragma once

#include "base/cancel.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

namespace tritium {

enum class StopReason { none, cancelled, deadline, drained, lost };

class RunControl {
 public:
  // `deadline`: monotonic seconds after which it is stopped.
  RunControl(std::string id, int attempt, std::optional<double> deadline) : id_(std::move(id)), attempt_(attempt), deadline_(deadline) {}

  // The first reason counts, but that somebody cancels goes before all others.
  void stop(StopReason reason) {
    StopReason none = StopReason::none;
    if (!reason_.compare_exchange_strong(none, reason) && reason == StopReason::cancelled) reason_ = reason;
    token_.cancel();
  }
  [[nodiscard]] StopReason reason() const { return reason_; }
  [[nodiscard]] const CancelToken& token() const { return token_; }
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] int attempt() const { return attempt_; }
  [[nodiscard]] std::optional<double> deadline() const { return deadline_; }

 private:
  std::string id_;
  int attempt_;
  std::optional<double> deadline_;
  CancelToken token_;
  std::atomic<StopReason> reason_{StopReason::none};
};

}  // namespace tritium
