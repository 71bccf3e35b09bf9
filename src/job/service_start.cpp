// Beginning and end of the service, and what it does by itself.
#include "base/system.h"
#include "base/try.h"
#include "job/retention.h"
#include "job/service_impl.h"
#include "job/sqlite_store.h"
#include "job/stored_job.h"
#include "pipeline/memory_budget.h"
#include "pipeline/placement.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstdio>

namespace tritium {
namespace {

constexpr double kSecondsBetweenLooks = 1, kSecondsBetweenClearings = 60;

bool uses(const std::string& device_option, const std::string& device) {
  const auto placement = parse_placement(device_option);
  if (!placement.ok()) return false;
  const auto devices = placement->devices();
  const auto plain = [](const std::string& name) { return name.substr(0, name.find('#')); };
  return devices.empty() || std::any_of(devices.begin(), devices.end(), [&](const std::string& d) { return plain(d) == plain(device); });
}

// What one worker may take: its share of every memory that several use.
std::vector<std::string> share_of(const std::vector<std::string>& budgets, const std::string& device, const std::vector<std::string>& all) {
  const auto parsed = parse_memory_budgets(budgets);
  if (!parsed.ok()) return budgets;
  std::vector<std::string> out;
  for (const auto& [name, bytes] : parsed->devices) {
    const bool host = name == "host";
    if (!host && !uses(device, name)) continue;
    const auto users = host ? static_cast<std::ptrdiff_t>(all.size())
                            : std::count_if(all.begin(), all.end(), [&, n = name](const std::string& each) { return uses(each, n); });
    constexpr double kGib = 1024.0 * 1024 * 1024;
    out.push_back(fmt::format("{}={}", name, static_cast<double>(bytes) / kGib / static_cast<double>(std::max<std::ptrdiff_t>(users, 1))));
  }
  return out;
}

Result<void> check_options(const ServiceOptions& o) {
  const auto refuse = [](std::string message, const char* field) { return Error{ErrorCode::usage, std::move(message), field, ""}; };
  if (o.data.empty()) return refuse("no data folder given", "data");
  if (o.max_queued < 1) return refuse(fmt::format("{} waiting jobs; at least 1", o.max_queued), "max_queued");
  if (o.max_attempts < 1) return refuse(fmt::format("{} attempts; at least 1", o.max_attempts), "max_attempts");
  if (o.checkpoint_steps < 0) return refuse(fmt::format("{} steps between checkpoints; 0 or more", o.checkpoint_steps), "checkpoint_steps");
  for (const auto& [value, field] :
       {std::pair(o.stall_seconds, "stall_seconds"), std::pair(o.drain_seconds, "drain_seconds"), std::pair(o.keep_days, "keep_days")})
    if (!(value >= 0)) return refuse(fmt::format("{} is not 0 or more", value), field);
  return {};
}

}  // namespace

Result<std::unique_ptr<JobService>> LocalJobService::start(const ServiceOptions& options, const JobClock& clock) {
  TRITIUM_TRY(check_options(options));
  std::unique_ptr<LocalJobService> out(new LocalJobService);
  ServiceState& state = out->state_;
  state.options = options;
  if (state.options.workers.empty()) state.options.workers = {options.engine.device};
  state.clock = clock;
  EngineOptions engine = options.engine;
  engine.device = state.options.workers.front();
  TRITIUM_TRY_ASSIGN(state.files, JobFiles::open(options.data));
  state.files->wait_for_old_workers();
  TRITIUM_TRY_ASSIGN(out->planner_, Planner::open(engine, options.worker_command, [&](const Planner::Budgets& all) {
                       return share_of(all, engine.device, state.options.workers);
                     }));
  TRITIUM_TRY(out->open_folder());
  out->start_workers();
  out->supervisor_ = std::thread([service = out.get()] { service->supervise(); });
  return std::unique_ptr<JobService>(std::move(out));
}

Result<void> LocalJobService::open_folder() {
  StoreHealth health;
  TRITIUM_TRY_ASSIGN(auto store, open_sqlite_store(state_.files->database(), state_.clock, &health));
  if (!health.damaged.empty())
    std::fprintf(stderr, "tritium: warning: the job database was damaged; %zu jobs were saved from it, it is kept as '%s'\n", health.saved,
                 health.damaged.c_str());
  // Jobs whose rows are lost are still known by the copies in their folders.
  std::size_t restored = 0;
  if (!health.damaged.empty() || health.made)
    for (Job& job : state_.files->noted()) {
      const auto fingerprint = job.spec.idempotency_key.empty() ? Result<std::string>("") : request_fingerprint(job.spec);
      TRITIUM_TRY_ASSIGN(const bool added, store->restore(job, fingerprint.ok() ? *fingerprint : "", state_.files->bytes(job.id)));
      restored += added ? 1 : 0;
    }
  if (restored > 0) std::fprintf(stderr, "tritium: %zu jobs were restored from their folders\n", restored);
  TRITIUM_TRY_ASSIGN(state_.book, JobBook::open(std::move(store), state_.options.keep_days));
  return clear_folder();
}

// What no job in the store owns was left by a submission that did not come to its end, or by a removal.
Result<void> LocalJobService::clear_folder() {
  TRITIUM_TRY_ASSIGN(auto ids, state_.book->store().ids());
  std::sort(ids.begin(), ids.end());
  for (const std::string& folder : state_.files->folders())
    if (!std::binary_search(ids.begin(), ids.end(), folder)) state_.files->remove(folder);
  return {};
}

// What killed processes left in the folders of jobs.
void LocalJobService::tidy() {
  for (const std::string& id : state_.files->folders()) {
    if (state_.over) return;
    const auto job = state_.book->store().find(id);
    if (!job.ok() || !*job) continue;  // about to be stored, or removed
    const bool running = (*job)->state == JobState::running;
    state_.files->clean(id, (*job)->attempt - (running ? 1 : 0), is_terminal((*job)->state));
  }
}

void LocalJobService::start_workers() {
  const auto& devices = state_.options.workers;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EngineOptions engine = state_.options.engine;
    engine.device = devices[i];
    engine.memory_budgets = share_of(planner_->budgets(), engine.device, devices);
    workers_.push_back(std::make_unique<JobWorker>(state_, fmt::format("worker-{}", i), std::move(engine)));
  }
}

// Deadlines, leases, retention, and whether the disk is well again.
void LocalJobService::supervise() {
  tidy();
  double next_clearing = monotonic_seconds();
  while (!state_.over) {
    double until = monotonic_seconds() + kSecondsBetweenLooks;
    {
      std::unique_lock lock(state_.mutex);
      for (const auto& [id, run] : state_.runs)
        if (run->deadline()) until = std::min(until, *run->deadline());
      const double wait = std::max(0.0, until - monotonic_seconds());
      state_.changed.wait_for(lock, std::chrono::duration<double>(wait), [&] { return state_.over.load(); });
      if (state_.over) return;
      for (const auto& [id, run] : state_.runs)
        if (run->deadline() && *run->deadline() <= monotonic_seconds()) run->stop(StopReason::deadline);
    }
    bool trouble = false;
    {
      const std::lock_guard lock(state_.mutex);
      trouble = !state_.trouble.empty();
    }
    if (trouble) {
      const auto files = state_.files->check_writable(0);
      const auto store = files.ok() ? state_.book->store().check_writable() : files;
      state_.note_trouble(store.ok() ? "" : store.error().text());
      if (store.ok()) state_.wake();
    }
    if (monotonic_seconds() < next_clearing) continue;
    next_clearing = monotonic_seconds() + kSecondsBetweenClearings;
    const auto reclaimed = state_.book->change_all([](JobStore& store) { return store.reclaim(); });
    if (reclaimed.ok() && !reclaimed->empty()) state_.wake();
    apply_retention();
  }
}

void LocalJobService::apply_retention() {
  const ServiceOptions& o = state_.options;
  const auto finished = state_.book->store().finished();
  if (!finished.ok()) return;
  for (const std::string& id : beyond_limits(*finished, {o.keep_days, o.keep_count, o.keep_bytes})) {
    if (const auto removed = state_.book->remove(id); !removed.ok()) return;
    state_.files->remove(id);
  }
}

void LocalJobService::stop(double drain_seconds) {
  const std::lock_guard once(stopping_);
  if (state_.over) return;
  state_.draining = true;
  state_.wake();
  {
    std::unique_lock lock(state_.mutex);
    state_.changed.wait_for(lock, std::chrono::duration<double>(drain_seconds), [&] { return state_.runs.empty(); });
    state_.over = true;
    for (const auto& [id, run] : state_.runs) run->stop(StopReason::drained);
  }
  state_.wake();
  for (const auto& worker : workers_) worker->join();
  if (supervisor_.joinable()) supervisor_.join();
}

}  // namespace tritium
