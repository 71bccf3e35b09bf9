// The caller's side of the conversation with one worker process. After an error of these functions the process is over and alive() is
// false.
#pragma once

#include "job/isolated_engine.h"
#include "job/worker_codec.h"
#include "job/worker_failure.h"
#include "job/worker_protocol.h"

namespace tritium {

class WorkerClient {
 public:
  // Starts the process and exchanges versions. `words`: the end of what one said that failed.
  static Result<std::unique_ptr<WorkerClient>> start(const IsolationOptions& options, std::string* words);

  [[nodiscard]] bool alive() const { return !over_ && !process_->wait(0) && !process_->hung_up(); }

  // It ended although nobody here asked for it.
  [[nodiscard]] bool died_by_itself() const { return died_; }

  // Sends a request; `doing` names it in errors.
  Result<void> request(FrameType type, const std::string& body, const std::string& doing, const CancelToken* cancel);
  // Waits for the next frame of the answer. Passes on that the token was cancelled, and ends the worker when that has no effect.
  Result<WorkerFrame> receive(const CancelToken* cancel);
  // The document of a frame. Error: the worker is ended.
  template <class T>
  Result<T> decode(const WorkerFrame& frame) {
    auto out = decode_message<T>(frame.body);
    if (!out.ok()) return confused(out.error());
    return out;
  }
  // For a frame that has no place here.
  Error unexpected(const WorkerFrame& frame);

  void note(const Plan& plan) { moment_.stages = plan.stages; }
  void note(const Progress& progress) { moment_.last = progress; }
  [[nodiscard]] const WorkerMoment& moment() const { return moment_; }
  void end();  // SIGKILL, and a short wait
  [[nodiscard]] int pid() const { return process_->pid(); }
  [[nodiscard]] std::string last_words() const { return process_->last_words(); }

 private:
  WorkerClient(std::unique_ptr<WorkerProcess> process, const IsolationOptions& options);
  Result<void> greet();
  // One look at the token and the clock.
  Result<void> check(const CancelToken* cancel);
  Result<void> send(std::string_view bytes, const CancelToken* cancel);
  Error died(const CancelToken* cancel);
  Error confused(const Error& problem);

  std::unique_ptr<WorkerProcess> process_;
  FrameReader frames_;
  WorkerMoment moment_;
  double stall_seconds_, grace_seconds_;
  bool over_ = false, died_ = false;
  bool sent_ = false;                                  // the request that is answered now
  bool cancel_sent_ = false;                           // for it
  double last_look_ = 0, silent_ = 0, cancelled_ = 0;  // seconds
};

}  // namespace tritium
