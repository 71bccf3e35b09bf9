#include "job/job_worker.h"

#include "base/system.h"
#include "job/process_facts.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

constexpr double kFirstPause = 0.5, kLongestPause = 60;  // seconds before a worker starts again, or the store is tried again

double pause_after(int losses) { return std::min(kLongestPause, kFirstPause * std::exp2(std::max(losses, 1) - 1)); }

const char* reason_name(const JobError& error, bool lost) {
  if (lost) return "worker died";
  switch (error.code) {
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::model:
      return "model";
    case ErrorCode::does_not_fit:
      return "does not fit";
    case ErrorCode::device:
      return "device";
    case ErrorCode::rejected:
      return "rejected";
    default:
      return error.field == "deadline_seconds" ? "deadline" : "failure";
  }
}

}  // namespace

JobWorker::JobWorker(ServiceState& service, std::string name, EngineOptions engine)
    : service_(service), name_(std::move(name)), options_(std::move(engine)) {
  status_.name = name_;
  status_.device = options_.device;
  status_.state = "starting";
  thread_ = std::thread([this] { live(); });
}

void JobWorker::join() {
  if (thread_.joinable()) thread_.join();
}

WorkerStatus JobWorker::status() const {
  const std::lock_guard lock(mutex_);
  WorkerStatus out = status_;
  out.memory_bytes = pid_ > 0 ? process_memory(pid_).resident : 0;
  return out;
}

void JobWorker::free_memory() {
  {
    const std::lock_guard lock(mutex_);
    drop_ = true;
  }
  service_.wake();
}

void JobWorker::set_state(const char* state, const std::string& job) {
  const std::lock_guard lock(mutex_);
  status_.state = state;
  status_.job = job;
}

void JobWorker::lost() {
  was_lost_ = true;
  const std::lock_guard lock(mutex_);
  pid_ = 0;
}

void JobWorker::live() {
  while (!service_.over && !service_.draining) {
    if (!be_ready()) {
      set_state("waiting");
      service_.pause(pause_after(losses_));
      continue;
    }
    set_state("idle");
    Job job;
    if (const auto control = take(job)) {
      set_state("working", job.id);
      work(std::move(job), *control);
    } else {
      wait_for_work();
    }
  }
  engine_.reset();
  set_state("stopped");
}

// A process with an open model. One that was lost has to be replaced before a job is taken: the job shall not pay for that.
bool JobWorker::be_ready() {
  if (was_lost_) engine_.reset();
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(drop_, false)) engine_.reset();
  }
  if (engine_) return true;
  if (was_lost_) {
    set_state("waiting");
    service_.pause(pause_after(losses_));
    if (service_.over || service_.draining) return false;
  }
  set_state("starting");
  was_lost_ = false;
  IsolationOptions isolation;
  isolation.command = service_.options.worker_command;
  isolation.stall_seconds = service_.options.stall_seconds;
  isolation.on_start = [this](int pid) {
    service_.files->note_worker(name_, pid);
    const std::lock_guard lock(mutex_);
    pid_ = pid;
  };
  isolation.on_loss = [this](const std::string& words) {
    lost();
    last_words_ = words;
  };
  auto opened = open_isolated_engine(options_, isolation);
  const std::lock_guard lock(mutex_);
  if (opened.ok()) {
    engine_ = std::move(*opened);
    return true;
  }
  ++losses_;
  ++status_.restarts;
  was_lost_ = false;  // the caller waits
  return false;
}

void JobWorker::wait_for_work() {
  std::unique_lock lock(service_.mutex);
  service_.changed.wait(lock, [&] { return service_.arrivals != seen_ || service_.over || service_.draining; });
}

// The next job, with a hand on it. Null: there is none, or the store cannot say.
std::shared_ptr<RunControl> JobWorker::take(Job& job) {
  {
    const std::lock_guard lock(service_.mutex);
    seen_ = service_.arrivals;
  }
  const double lease = lease_seconds();
  std::shared_ptr<RunControl> control;
  const auto leased = service_.book->change([&](JobStore& store) { return store.lease(name_, lease); },
                                            [&](const Job& taken) {
                                              std::optional<double> deadline;
                                              if (taken.spec.deadline_seconds)
                                                deadline = monotonic_seconds() + *taken.spec.deadline_seconds;
                                              control = std::make_shared<RunControl>(taken.id, taken.attempt, deadline);
                                              const std::lock_guard lock(service_.mutex);
                                              service_.runs[taken.id] = control;
                                              if (service_.over) control->stop(StopReason::drained);
                                            });
  if (!leased.ok()) {
    service_.note_trouble(leased.error().message);
    service_.pause(kFirstPause);
    service_.wake();
    return nullptr;
  }
  if (leased->has_value()) job = **leased;
  return control;
}

void JobWorker::work(Job job, RunControl& control) {
  {
    const std::lock_guard lock(mutex_);
    if (pid_ > 0) reset_peak_memory(pid_);
  }
  shown_ = 0;
  renewed_ = monotonic_seconds();
  shown_stage_.clear();
  job.timings.clear();
  job.error.reset();
  const Outcome outcome = make_outputs(job, control);
  losses_ = outcome.lost ? losses_ + 1 : outcome.kind == Outcome::Kind::try_again ? losses_ : 0;
  if (outcome.lost) {
    const std::lock_guard lock(mutex_);
    ++status_.restarts;
  }
  settle(std::move(job), outcome, control);
  {
    const std::lock_guard lock(service_.mutex);
    const auto own = service_.runs.find(control.id());
    if (own != service_.runs.end() && own->second.get() == &control) service_.runs.erase(own);
  }
  service_.wake();
}

void JobWorker::count_end(const Job& job, bool lost) {
  const std::lock_guard lock(service_.mutex);
  if (job.state == JobState::completed) ++service_.totals.completed;
  if (job.state == JobState::cancelled) ++service_.totals.cancelled;
  if (job.state == JobState::failed && job.error) ++service_.totals.failed[reason_name(*job.error, lost)];
}

// Writes down how it ended, however long the store cannot be written.
void JobWorker::settle(Job job, const Outcome& outcome, RunControl& control) {
  using Kind = Outcome::Kind;
  const Lease lease{control.id(), control.attempt()};
  job.error = outcome.error;
  const bool back = outcome.kind == Kind::try_again || (outcome.kind == Kind::stopped && control.reason() == StopReason::drained);
  if (outcome.kind == Kind::stopped && control.reason() == StopReason::lost) return;
  if (outcome.error && outcome.error->code == ErrorCode::rejected) service_.files->keep_rejected(job.id, control.attempt(), job.output);
  job.state = outcome.kind == Kind::done ? JobState::completed : outcome.kind == Kind::failed ? JobState::failed : JobState::cancelled;
  if (!back) service_.files->clean(job.id, control.attempt(), /*checkpoints=*/true);
  for (double pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const auto ended = service_.book->change(
        [&](JobStore& store) {
          const Release why = outcome.kind == Kind::stopped ? Release::interrupted : Release::failed;
          return back ? store.release(lease, job, why) : store.finish(lease, job, service_.files->bytes(job.id));
        },
        [&](const Job& now) { count_end(now, outcome.lost); });
    if (ended.ok()) {
      if (!ended->has_value()) return;  // removed, or somebody else's by now
      if (is_terminal((*ended)->state)) (void)service_.files->note(**ended);
      service_.note_trouble("");
      return;
    }
    service_.note_trouble(ended.error().text());
    set_state("waiting", job.id);
    if (service_.over) return;  // it is running in the store and will be taken up at the next start
    service_.pause(pause);
  }
}

}  // namespace tritium
