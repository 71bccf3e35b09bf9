// Making one job (job_worker.h).
#include "job/job_worker.h"

#include "base/system.h"
#include "base/try.h"
#include "job/process_facts.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr double kFirstPause = 0.2, kLongestPause = 1;  // seconds before the disk is tried again
constexpr double kSecondsBetweenReports = 0.1;          // of progress
constexpr double kSecondsBetweenRenewals = 30;
constexpr double kLeaseSlack = 180;  // beyond the stall limit: from there on the thread itself hangs

JobError job_error(const Error& error, const Job& job) {
  return {error.code, error.message, error.field, error.hint, job.progress.stage, ""};
}

// Nothing but the request is to blame: another attempt would end the same.
bool is_final(ErrorCode code) {
  return code == ErrorCode::usage || code == ErrorCode::does_not_fit || code == ErrorCode::model || code == ErrorCode::rejected;
}

}  // namespace

double JobWorker::lease_seconds() const {
  constexpr double kForEver = 1e12;
  return service_.options.stall_seconds > 0 ? service_.options.stall_seconds + kLeaseSlack : kForEver;
}

JobWorker::Outcome JobWorker::make_outputs(Job& job, RunControl& control) {
  job.outputs.clear();
  for (int n = 0; n < job.spec.outputs; ++n) {
    auto output = service_.files->published(job.id, n);  // by an earlier attempt
    if (!output) {
      job.output = n;
      Outcome outcome = make_output(job, n, control);
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
    const auto made = generate(job, request, n, control);
    const auto kept = made.ok() ? keep(job, *made, *request.seed, n, control) : Result<void>(made.error());
    if (kept.ok()) return {};
    if (control.reason() == StopReason::none && !was_lost_ && wait_for_storage(job, control, pause)) continue;
    return judge(job, kept.error(), control);
  }
}

Result<Artifact> JobWorker::generate(Job& job, const Request& request, int n, RunControl& control) {
  steps_counted_ = 0;
  output_began_ = monotonic_seconds();
  TRITIUM_TRY_ASSIGN(const fs::path folder, service_.files->begin(job.id, control.attempt(), n));
  OutputOptions where;
  where.video = folder / "video.mp4";
  where.thumbnail = folder / "thumbnail.jpg";
  where.checkpoint = service_.files->checkpoint(job.id, n);
  where.checkpoint_steps = service_.options.checkpoint_steps;
  GenerateHooks hooks{{}, [&](const Progress& p) { note_progress(job, p, control); }};
  if (service_.options.previews)
    hooks.preview = [&](const std::string& jpeg) {
      service_.book->show(job, JobEvent::Kind::preview, std::make_shared<const std::string>(jpeg));
    };
  auto made = engine_->generate(request, where, hooks, &control.token());
  const std::lock_guard lock(mutex_);
  if (pid_ > 0) job.peak_memory_bytes = std::max(job.peak_memory_bytes, process_memory(pid_).peak);
  return made;
}

// The finished output gets its place, and the job what is known about its making.
Result<void> JobWorker::keep(Job& job, const Artifact& artifact, std::uint64_t seed, int n, RunControl& control) {
  TRITIUM_TRY_ASSIGN(JobOutput output, service_.files->publish(job.id, control.attempt(), n));
  output.seed = seed;
  job.outputs.push_back(std::move(output));
  std::error_code ignored;
  fs::remove_all(service_.files->checkpoint(job.id, n), ignored);
  count(job, artifact);
  for (const StageTiming& timing : artifact.timings) {
    const auto same = std::find_if(job.timings.begin(), job.timings.end(), [&](const auto& t) { return t.stage == timing.stage; });
    if (same == job.timings.end())
      job.timings.push_back(timing);
    else
      same->seconds += timing.seconds;
  }
  for (const std::string& warning : artifact.warnings)
    if (std::find(job.warnings.begin(), job.warnings.end(), warning) == job.warnings.end()) job.warnings.push_back(warning);
  return {};
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
  const auto kept = service_.book->store().renew({control.id(), control.attempt()}, job, lease_seconds());
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

}  // namespace tritium
