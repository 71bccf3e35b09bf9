#include "job/job_worker.h"

#include "base/system.h"
#include "base/try.h"
#include "job/process_facts.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr double kFirstPause = 0.5, kLongestPause = 60;  // seconds before a worker starts again, or the disk is tried again
constexpr double kSecondsBetweenReports = 0.1;           // of progress
constexpr double kSecondsBetweenRenewals = 30;
constexpr double kLeaseSlack = 180;  // beyond the stall limit: from there on the thread itself hangs

double pause_after(int losses) { return std::min(kLongestPause, kFirstPause * std::exp2(std::max(losses, 1) - 1)); }

JobError job_error(const Error& error, const Job& job) {
  return {error.code, error.message, error.field, error.hint, job.progress.stage, ""};
}

// Nothing but the request is to blame: another attempt would end the same.
bool is_final(ErrorCode code) {
  return code == ErrorCode::usage || code == ErrorCode::does_not_fit || code == ErrorCode::model || code == ErrorCode::rejected;
}

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

// How an attempt ended.
struct JobWorker::Outcome {
  enum class Kind { done, failed, try_again, stopped } kind = Kind::done;
  std::optional<JobError> error;  // of the middle two
  bool lost = false;              // the worker process is to blame
};

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
  const double stall = service_.options.stall_seconds, lease = stall > 0 ? stall + kLeaseSlack : 1e12;
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

JobWorker::Outcome JobWorker::make_outputs(Job& job, RunControl& control) {
  job.outputs.clear();
  for (int n = 0; n < job.spec.outputs; ++n) {
    auto output = service_.files->published(job.id, n);  // by an earlier attempt
    if (!output) {
      job.output = n;
      const Outcome outcome = make_output(job, n, control);
      if (outcome.kind != Outcome::Kind::done) return outcome;
      continue;
    }
    output->seed = job.plan.seed + static_cast<std::uint64_t>(n);
    job.outputs.push_back(std::move(*output));
  }
  return {};
}

JobWorker::Outcome JobWorker::make_output(Job& job, int n, RunControl& control) {
  Request request = job.spec.request;
  request.seed = job.plan.seed + static_cast<std::uint64_t>(n);
  for (double pause = kFirstPause;;) {
    steps_counted_ = 0;
    output_began_ = monotonic_seconds();
    Result<Artifact> made = Error{};
    OutputOptions where;
    where.checkpoint = service_.files->checkpoint(job.id, n);
    where.checkpoint_steps = service_.options.checkpoint_steps;
    const auto folder = service_.files->begin(job.id, control.attempt(), n);
    if (folder.ok()) {
      GenerateHooks hooks{{}, [&](const Progress& p) { note_progress(job, p, control); }};
      if (service_.options.previews)
        hooks.preview = [&](const std::string& jpeg) {
          service_.book->show(job, JobEvent::Kind::preview, std::make_shared<const std::string>(jpeg));
        };
      where.video = *folder / "video.mp4";
      where.thumbnail = *folder / "thumbnail.jpg";
      made = engine_->generate(request, where, hooks, &control.token());
      const std::lock_guard lock(mutex_);
      if (pid_ > 0) job.peak_memory_bytes = std::max(job.peak_memory_bytes, process_memory(pid_).peak);
    } else {
      made = folder.error();
    }
    if (made.ok()) {
      auto output = service_.files->publish(job.id, control.attempt(), n);
      if (output.ok()) {
        output->seed = *request.seed;
        job.outputs.push_back(std::move(*output));
        std::error_code ignored;
        fs::remove_all(where.checkpoint, ignored);
        count(job, *made);
        for (const StageTiming& timing : made->timings) {
          const auto same = std::find_if(job.timings.begin(), job.timings.end(), [&](const auto& t) { return t.stage == timing.stage; });
          if (same == job.timings.end())
            job.timings.push_back(timing);
          else
            same->seconds += timing.seconds;
        }
        for (const std::string& warning : made->warnings)
          if (std::find(job.warnings.begin(), job.warnings.end(), warning) == job.warnings.end()) job.warnings.push_back(warning);
        return {};
      }
      made = output.error();
    }
    if (control.reason() == StopReason::none && !was_lost_ && wait_for_storage(job, control, pause)) continue;
    return judge(job, made.error(), control);
  }
}

JobWorker::Outcome JobWorker::judge(const Job& job, const Error& error, const RunControl& control) {
  Outcome out;
  out.lost = was_lost_;
  if (control.reason() == StopReason::deadline) {
    out.kind = Outcome::Kind::failed;
    out.error =
        JobError{ErrorCode::failure, fmt::format("not finished within the {:g} s that were given", job.spec.deadline_seconds.value_or(0)),
                 "deadline_seconds", "give it more time, a smaller size or fewer steps",
                 job.progress.stage, ""};
    return out;
  }
  if (control.reason() != StopReason::none) {
    out.kind = Outcome::Kind::stopped;
    return out;
  }
  out.error = job_error(error, job);
  if (was_lost_) out.error->last_words = last_words_;
  out.kind = !was_lost_ && is_final(error.code) ? Outcome::Kind::failed : Outcome::Kind::try_again;
  return out;
}

// After an error that a full disk or a folder that cannot be written may have caused: true when it is so, after the cause is gone. The job
// stays in this worker's hands meanwhile; nobody can write anything else about it either.
bool JobWorker::wait_for_storage(const Job& job, RunControl& control, double& pause) {
  const auto check = [&]() -> Result<void> {
    TRITIUM_TRY(service_.files->check_writable(job.plan.output_bytes));
    return service_.book->store().check_writable();
  };
  auto now = check();
  if (now.ok()) return false;
  set_state("waiting", job.id);
  for (; !now.ok() && control.reason() == StopReason::none && !service_.over; now = check()) {
    service_.note_trouble(now.error().text());
    service_.pause(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  if (now.ok()) service_.note_trouble("");
  set_state("working", job.id);
  return now.ok() && control.reason() == StopReason::none;
}

// Stages of the engine, steps instead of blocks, and the place in the whole job.
void JobWorker::note_progress(Job& job, Progress p, RunControl& control) {
  if (p.stage == "denoise" && p.of > 0) {
    p.step = static_cast<int>(static_cast<std::int64_t>(p.step) * job.plan.steps / p.of);
    p.of = job.plan.steps;
    if (p.step > steps_counted_) {
      const std::lock_guard lock(service_.mutex);
      service_.totals.steps += static_cast<std::uint64_t>(p.step - steps_counted_);
      service_.totals.tokens += static_cast<std::uint64_t>(p.step - steps_counted_) * static_cast<std::uint64_t>(job.plan.rows);
      steps_counted_ = p.step;
    }
  }
  const double now = monotonic_seconds();
  p.fraction = (job.output + p.fraction) / job.spec.outputs;
  if (p.eta_seconds >= 0) p.eta_seconds += (job.spec.outputs - 1 - job.output) * (now - output_began_ + p.eta_seconds);
  if (now - shown_ < kSecondsBetweenReports && p.stage == shown_stage_) return;
  shown_ = now;
  shown_stage_ = p.stage;
  job.progress = std::move(p);
  service_.book->show(job, JobEvent::Kind::progress);
  if (now - renewed_ < kSecondsBetweenRenewals) return;
  renewed_ = now;
  const double stall = service_.options.stall_seconds;
  const auto kept = service_.book->store().renew({control.id(), control.attempt()}, job, stall > 0 ? stall + kLeaseSlack : 1e12);
  if (kept.ok() && !*kept) control.stop(StopReason::lost);
}

void JobWorker::count(const Job& job, const Artifact& artifact) {
  const std::lock_guard lock(service_.mutex);
  service_.totals.steps += static_cast<std::uint64_t>(std::max(0, job.plan.steps - steps_counted_));
  service_.totals.tokens +=
      static_cast<std::uint64_t>(std::max(0, job.plan.steps - steps_counted_)) * static_cast<std::uint64_t>(job.plan.rows);
  for (const StageTiming& timing : artifact.timings) {
    service_.totals.stage_seconds[timing.stage] += timing.seconds;
    ++service_.totals.stage_runs[timing.stage];
  }
}

// Writes down how it ended, however long the store cannot be written.
void JobWorker::settle(Job job, const Outcome& outcome, RunControl& control) {
  using Kind = Outcome::Kind;
  const Lease lease{control.id(), control.attempt()};
  job.error = outcome.error;
  const bool back = outcome.kind == Kind::try_again || (outcome.kind == Kind::stopped && control.reason() == StopReason::drained);
  if (outcome.kind == Kind::stopped && control.reason() == StopReason::lost) return;
  const bool rejected = outcome.error && outcome.error->code == ErrorCode::rejected;  // its video is kept
  job.state = outcome.kind == Kind::done ? JobState::completed : outcome.kind == Kind::failed ? JobState::failed : JobState::cancelled;
  if (!back && !rejected) service_.files->clean(job.id, control.attempt(), /*checkpoints=*/true);
  for (double pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const auto ended = service_.book->change([&](JobStore& store) {
      const Release why = outcome.kind == Kind::stopped ? Release::interrupted : Release::failed;
      return back ? store.release(lease, job, why) : store.finish(lease, job, service_.files->bytes(job.id));
    });
    if (ended.ok()) {
      if (!ended->has_value()) return;  // removed, or somebody else's by now
      const Job& now = **ended;
      if (is_terminal(now.state)) (void)service_.files->note(now);
      service_.note_trouble("");
      const std::lock_guard lock(service_.mutex);
      if (now.state == JobState::completed) ++service_.totals.completed;
      if (now.state == JobState::cancelled) ++service_.totals.cancelled;
      if (now.state == JobState::failed && now.error) ++service_.totals.failed[reason_name(*now.error, outcome.lost)];
      return;
    }
    service_.note_trouble(ended.error().text());
    set_state("waiting", job.id);
    if (service_.over) return;  // it is running in the store and will be taken up at the next start
    service_.pause(pause);
  }
}

}  // namespace tritium
