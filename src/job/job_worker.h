// One worker of the service: a thread that takes jobs from the queue and has a worker process make them. The life of the thread is in
// job_worker.cpp, the making of one job in job_run.cpp.
#pragma once

#include "job/isolated_engine.h"
#include "job/service_state.h"

#include <thread>

namespace tritium {

class JobWorker {
 public:
  // Starts the thread, which starts the process.
  JobWorker(ServiceState& service, std::string name, EngineOptions engine);
  ~JobWorker() { join(); }
  void join();  // ServiceState::over is set
  JobWorker(const JobWorker&) = delete;
  JobWorker& operator=(const JobWorker&) = delete;

  [[nodiscard]] WorkerStatus status() const;
  // The process ends and starts anew, without weights, when it has nothing to do.
  void free_memory();

 private:
  // How an attempt ended.
  struct Outcome {
    enum class Kind { done, failed, try_again, stopped } kind = Kind::done;
    std::optional<JobError> error;  // of the middle two
    bool lost = false;              // the worker process is to blame
  };
  void live();
  bool be_ready();
  void wait_for_work();
  std::shared_ptr<RunControl> take(Job& job);
  void work(Job job, RunControl& control);
  Outcome make_outputs(Job& job, RunControl& control);
  Outcome make_output(Job& job, int output, RunControl& control);
  Result<Artifact> generate(Job& job, const Request& request, int output, RunControl& control);
  Result<void> keep(Job& job, const Artifact& artifact, std::uint64_t seed, int output, RunControl& control);
  Outcome judge(const Job& job, const Error& error, const RunControl& control);
  void settle(Job job, const Outcome& outcome, RunControl& control);
  void note_progress(Job& job, Progress progress, RunControl& control);
  void count(const Job& job, const Artifact& artifact);
  void count_end(const Job& job, bool lost);
  bool wait_for_storage(const Job& job, RunControl& control, double& pause);
  [[nodiscard]] double lease_seconds() const;
  void set_state(const char* state, const std::string& job = {});
  void lost();

  ServiceState& service_;
  const std::string name_;
  const EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  std::string last_words_;  // of a process that was lost
  bool was_lost_ = false;   // in the call that just ended
  int losses_ = 0;          // in a row
  std::uint64_t seen_ = 0;  // arrivals
  double shown_ = 0, renewed_ = 0, output_began_ = 0;
  std::string shown_stage_;
  int steps_counted_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  WorkerStatus status_;
  int pid_ = 0;
  bool drop_ = false;
  std::thread thread_;
};

}  // namespace tritium
