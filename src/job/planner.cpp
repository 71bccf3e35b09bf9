#include "job/planner.h"

#include "base/try.h"

namespace tritium {
namespace {

constexpr double kStallSeconds = 120;  // reading the headers of large files from slow disks

}  // namespace

Result<std::unique_ptr<Planner>> Planner::open(const EngineOptions& engine, const std::vector<std::string>& worker_command,
                                               const std::function<Budgets(const Budgets&)>& share) {
  std::unique_ptr<Planner> out(new Planner);
  out->options_ = engine;
  out->options_.dump_tensors.clear();
  out->isolation_.command = worker_command;
  out->isolation_.stall_seconds = kStallSeconds;
  out->isolation_.on_loss = [planner = out.get()](const std::string&) { planner->lost_ = true; };
  TRITIUM_TRY(out->start());
  out->model_json_ = out->engine_->model_json();
  TRITIUM_TRY_ASSIGN(out->budgets_, out->engine_->memory_budgets());
  // From now on with these, which are no longer measured against what is free.
  out->options_.memory_budgets = share(out->budgets_);
  out->options_.budgets_are_free = true;
  TRITIUM_TRY(out->start());
  return out;
}

Result<void> Planner::start() {
  engine_.reset();
  lost_ = false;
  TRITIUM_TRY_ASSIGN(engine_, open_isolated_engine(options_, isolation_));
  return {};
}

Result<Plan> Planner::plan(const Request& request) {
  const std::lock_guard lock(mutex_);
  for (int attempt = 0;; ++attempt) {
    Result<Plan> out = Error{};
    if (const auto started = engine_ ? Result<void>() : start(); started.ok())
      out = engine_->plan(request);
    else
      out = started.error();
    if (out.ok() || !lost_) return out;
    engine_.reset();
    lost_ = false;
    if (attempt > 0) return Error{ErrorCode::busy, "the process that plans requests died: " + out.error().message, "", "try again later"};
  }
}

}  // namespace tritium
