// Plans of requests, made in a process of their own: a server never opens a device itself.
#pragma once

#include "job/isolated_engine.h"

#include <mutex>

namespace tritium {

class Planner {
 public:
  using Budgets = std::vector<std::string>;  // as EngineOptions::memory_budgets

  // Opens the model, and looks once at what memory is free: budgets() says what of it may be taken by all workers together. `share` makes
  // of it what one may take; later plans keep to that, whatever a worker has loaded by then. Errors: as Engine::open().
  static Result<std::unique_ptr<Planner>> open(const EngineOptions& engine, const std::vector<std::string>& worker_command,
                                               const std::function<Budgets(const Budgets&)>& share);

  // As Engine::plan(); one at a time. Error busy: the process died, twice.
  Result<Plan> plan(const Request& request);

  [[nodiscard]] const Budgets& budgets() const { return budgets_; }
  [[nodiscard]] const std::string& model_json() const { return model_json_; }

 private:
  Planner() = default;
  Result<void> start();

  EngineOptions options_;
  IsolationOptions isolation_;
  Budgets budgets_;
  std::string model_json_;
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<Engine> engine_;
  bool lost_ = false;
};

}  // namespace tritium
