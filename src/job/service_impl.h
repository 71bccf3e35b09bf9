// The service as it is built; JobService::start() with the clock of the system.
#pragma once

#include "job/job_worker.h"
#include "job/planner.h"
#include "job/service_state.h"

namespace tritium {

class LocalJobService final : public JobService {
 public:
  static Result<std::unique_ptr<JobService>> start(const ServiceOptions& options, const JobClock& clock);
  ~LocalJobService() override { stop(0); }
  LocalJobService(const LocalJobService&) = delete;
  LocalJobService& operator=(const LocalJobService&) = delete;

  Result<Plan> plan(const Request& request) override;
  Result<Submitted> submit(const JobSpec& spec) override;
  Result<Job> get(const std::string& id, const std::string& owner) override;
  Result<JobPage> list(const JobQuery& query) override { return state_.book->list(query); }
  Result<Job> cancel(const std::string& id, const std::string& owner) override;
  Result<Job> remove(const std::string& id, const std::string& owner) override;
  Result<Job> wait(const std::string& id, const std::string& owner, std::chrono::milliseconds time) override;
  std::unique_ptr<Subscription> subscribe(const std::string& owner, const std::string& id, EventCallback callback) override {
    return state_.book->events().subscribe(owner, id, std::move(callback));
  }
  [[nodiscard]] ServiceStatus status() override;
  [[nodiscard]] const ServiceOptions& options() const override { return state_.options; }
  [[nodiscard]] std::string model_json() const override { return planner_->model_json(); }
  void free_memory() override;
  void stop(double drain_seconds) override;

 private:
  LocalJobService() = default;
  Result<void> open_folder();
  Result<void> clear_folder();
  Result<std::optional<Submitted>> find_same(const JobSpec& spec, std::string& fingerprint);
  Result<void> check_room() const;
  void tidy();
  void start_workers();
  void supervise();
  void apply_retention();

  ServiceState state_;
  std::unique_ptr<Planner> planner_;
  std::vector<std::unique_ptr<JobWorker>> workers_;
  std::mutex submitting_;  // the number of waiting jobs is checked and changed
  std::mutex stopping_;
  std::thread supervisor_;
};

}  // namespace tritium
