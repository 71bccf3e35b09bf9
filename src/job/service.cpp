// What callers ask of the service.
#include "job/service.h"

#include "base/hash.h"
#include "base/try.h"
#include "job/service_impl.h"
#include "job/stored_job.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <algorithm>
#include <array>
#include <cmath>

namespace tritium {
namespace {

constexpr std::size_t kLongestId = 64, kLongestKey = 255;
constexpr int kMostOutputs = 10, kHighestPriority = 100;
constexpr double kLongestDeadline = 1e9;

Error no_such_job(const std::string& id) {
  return Error{ErrorCode::not_found, fmt::format("there is no job '{}'", id), "id", "it may have been removed; list the jobs"};
}

bool is_id(const std::string& text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kLongestId && std::all_of(text.begin(), text.end(), allowed);
}

Result<void> check_spec(const JobSpec& spec) {
  const auto refuse = [](std::string message, const char* field, std::string hint = {}) {
    return Error{ErrorCode::usage, std::move(message), field, std::move(hint)};
  };
  if (!spec.id.empty() && !is_id(spec.id))
    return refuse(fmt::format("'{}' is no id: 1 to {} letters, digits, '_' and '-'", spec.id.substr(0, 100), kLongestId), "id");
  if (spec.outputs < 1 || spec.outputs > kMostOutputs)
    return refuse(fmt::format("{} outputs; 1 to {} are possible", spec.outputs, kMostOutputs), "outputs", "send several requests");
  if (spec.priority < -kHighestPriority || spec.priority > kHighestPriority)
    return refuse(fmt::format("the priority {} is outside -{}..{}", spec.priority, kHighestPriority, kHighestPriority), "priority");
  if (spec.idempotency_key.size() > kLongestKey)
    return refuse(fmt::format("the key has {} bytes, at most {} are possible", spec.idempotency_key.size(), kLongestKey),
                  "idempotency_key");
  if (spec.deadline_seconds && !(*spec.deadline_seconds > 0 && *spec.deadline_seconds <= kLongestDeadline))
    return refuse(fmt::format("the deadline of {} s is not above 0 and up to {:g}", *spec.deadline_seconds, kLongestDeadline),
                  "deadline_seconds");
  return {};
}

std::string new_id() {
  std::array<unsigned char, 12> bytes{};
  std::size_t got = 0;
  while (got < bytes.size())
    if (const ssize_t n = ::getrandom(bytes.data() + got, bytes.size() - got, 0); n > 0) got += static_cast<std::size_t>(n);
  std::string out;
  for (const unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace

Result<std::unique_ptr<JobService>> JobService::start(const ServiceOptions& options) {
  return LocalJobService::start(options, JobClock::system());
}

// Errors of reading a file name the file; for a client it is the field that counts, since its file may have another name here.
Result<Plan> LocalJobService::plan(const Request& request) {
  auto out = planner_->plan(request);
  if (out.ok() || !out.error().field.empty()) return out;
  Error error = out.error();
  Request copy = request;
  for_each_input(copy, [&](const std::string& field, std::filesystem::path& file) {
    if (error.field.empty() && error.message.find("'" + file.string() + "'") != std::string::npos) error.field = field;
  });
  return error;
}

// The job of an earlier submission with the same key.
Result<std::optional<Submitted>> LocalJobService::find_same(const JobSpec& spec, std::string& fingerprint) {
  if (spec.idempotency_key.empty()) return std::optional<Submitted>();
  TRITIUM_TRY_ASSIGN(fingerprint, request_fingerprint(spec));
  TRITIUM_TRY_ASSIGN(const auto known, state_.book->store().find_key(spec.owner, spec.idempotency_key));
  if (!known) return std::optional<Submitted>();
  if (known->fingerprint != fingerprint)
    return Error{ErrorCode::conflict,
                 fmt::format("the key '{}' belongs to another request, that of job '{}'", spec.idempotency_key, known->job.id),
                 "idempotency_key", "send the same request again, or use a new key"};
  TRITIUM_TRY_ASSIGN(const auto now, state_.book->find(known->job.id, spec.owner));
  return std::optional<Submitted>(Submitted{now ? *now : known->job, true});
}

Result<void> LocalJobService::check_room() const {
  if (state_.draining) return Error{ErrorCode::busy, "the service is shutting down", "", "try again when it is back"};
  const std::size_t waiting = state_.book->queued();
  if (waiting >= static_cast<std::size_t>(std::max(0, state_.options.max_queued)))
    return Error{ErrorCode::busy, fmt::format("{} jobs wait, more are not taken", waiting), "", "try again later"};
  return {};
}

Result<Submitted> LocalJobService::submit(const JobSpec& spec) {
  TRITIUM_TRY(check_spec(spec));
  std::string fingerprint;
  TRITIUM_TRY_ASSIGN(auto same, find_same(spec, fingerprint));
  if (same) return std::move(*same);
  TRITIUM_TRY(check_room());
  Job job;
  job.spec = spec;
  job.id = spec.id.empty() ? new_id() : spec.id;
  if (!spec.id.empty()) {
    TRITIUM_TRY_ASSIGN(const auto taken, state_.book->store().find(spec.id));
    if (taken)
      return Error{ErrorCode::conflict, fmt::format("a job with the id '{}' exists; it is {}", spec.id, job_state_name(taken->state)), "id",
                   "choose another id, or none"};
  }
  TRITIUM_TRY_ASSIGN(job.plan, plan(spec.request));
  job.plan_json = plan_json(job.plan);
  job.warnings = job.plan.warnings;
  job.max_attempts = std::max(1, state_.options.max_attempts);
  job.created = state_.clock.wall();

  const std::lock_guard lock(submitting_);
  TRITIUM_TRY(check_room());
  if (!spec.id.empty()) {  // again: its folder must not be touched when another submission was faster
    TRITIUM_TRY_ASSIGN(const auto taken, state_.book->store().find(spec.id));
    if (taken) return Error{ErrorCode::conflict, fmt::format("a job with the id '{}' exists", spec.id), "id", "choose another id, or none"};
  }
  TRITIUM_TRY_ASSIGN(same, find_same(spec, fingerprint));
  if (same) return std::move(*same);
  TRITIUM_TRY(state_.files->take_inputs(job.id, job.spec.request));
  const auto stored = state_.book->change([&](JobStore& store) -> Result<std::optional<Job>> {
    TRITIUM_TRY_ASSIGN(job, store.add(job, fingerprint));
    return std::optional<Job>(job);
  });
  if (!stored.ok()) {
    state_.files->remove(job.id);
    if (stored.error().code == ErrorCode::busy) state_.note_trouble(stored.error().text());
    return stored.error();
  }
  (void)state_.files->note(job);  // only needed when the database is lost
  state_.wake();
  return Submitted{**stored, false};
}

Result<Job> LocalJobService::get(const std::string& id, const std::string& owner) {
  TRITIUM_TRY_ASSIGN(const auto job, state_.book->find(id, owner));
  if (!job) return no_such_job(id);
  return *job;
}

Result<Job> LocalJobService::cancel(const std::string& id, const std::string& owner) {
  TRITIUM_TRY_ASSIGN(const Job before, get(id, owner));
  if (is_terminal(before.state)) return before;
  TRITIUM_TRY_ASSIGN(const auto now, state_.book->change([&](JobStore& store) { return store.cancel(id); },
                                                         [&](const Job& job) {
                                                           const std::lock_guard lock(state_.mutex);
                                                           const auto run = state_.runs.find(id);
                                                           if (job.state == JobState::running && run != state_.runs.end())
                                                             run->second->stop(StopReason::cancelled);
                                                           if (job.state == JobState::cancelled && before.state == JobState::queued)
                                                             ++state_.totals.cancelled;
                                                         }));
  if (!now) return no_such_job(id);
  if (now->state == JobState::cancelled) {
    state_.files->clean(id, now->attempt, /*checkpoints=*/true);
    (void)state_.files->note(*now);
  }
  return *now;
}

Result<Job> LocalJobService::remove(const std::string& id, const std::string& owner) {
  TRITIUM_TRY_ASSIGN(Job job, cancel(id, owner));
  constexpr std::chrono::seconds kLongestWait{60};
  const auto begun = std::chrono::steady_clock::now();
  while (!is_terminal(job.state)) {
    if (std::chrono::steady_clock::now() - begun > kLongestWait)
      return Error{ErrorCode::busy, fmt::format("job '{}' is being cancelled, but its worker has not let go yet", id), "",
                   "try again later"};
    if (state_.over) return Error{ErrorCode::busy, "the service is shutting down", "", "try again when it is back"};
    constexpr std::chrono::milliseconds kBetweenLooks{500};
    TRITIUM_TRY_ASSIGN(job, wait(id, owner, kBetweenLooks));
  }
  TRITIUM_TRY_ASSIGN(const auto removed, state_.book->remove(id));
  if (!removed) return no_such_job(id);
  state_.files->remove(id);
  return *removed;
}

Result<Job> LocalJobService::wait(const std::string& id, const std::string& owner, std::chrono::milliseconds time) {
  TRITIUM_TRY_ASSIGN(const Job now, get(id, owner));
  if (is_terminal(now.state)) return now;
  state_.book->wait(id, time);
  return get(id, owner);
}

ServiceStatus LocalJobService::status() {
  ServiceStatus out;
  out.draining = state_.draining;
  out.queued = state_.book->queued();
  out.running = state_.book->running();
  bool can_work = false;
  for (const auto& worker : workers_) {
    out.workers.push_back(worker->status());
    const std::string& state = out.workers.back().state;
    can_work = can_work || state == "idle" || state == "working";
  }
  const std::lock_guard lock(state_.mutex);
  const ServiceTotals& totals = state_.totals;
  out.completed = totals.completed;
  out.cancelled = totals.cancelled;
  out.failed = totals.failed;
  out.stage_seconds = totals.stage_seconds;
  out.stage_runs = totals.stage_runs;
  out.steps = totals.steps;
  out.tokens = totals.tokens;
  out.reason = !state_.trouble.empty() ? state_.trouble
               : state_.draining       ? "the service is shutting down"
               : can_work              ? ""
                                       : "no worker is ready yet";
  out.ready = out.reason.empty();
  return out;
}

void LocalJobService::free_memory() {
  for (const auto& worker : workers_) worker->free_memory();
}

}  // namespace tritium
