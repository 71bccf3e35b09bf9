#include "cli/key_limits.h"

#include "base/try.h"

#include <fmt/format.h>
#include <mutex>

namespace tritium::cli {
namespace {

class KeyLimits : public JobService {
 public:
  KeyLimits(JobService& inner, std::shared_ptr<http::ApiKeys> keys) : inner_(inner), keys_(std::move(keys)) {}

  Result<Plan> plan(const Request& request) override { return inner_.plan(request); }
  Result<Submitted> submit(const JobSpec& spec) override {
    const http::ApiKey* key = keys_->find_name(spec.owner);
    if (key == nullptr || !key->max_queued) return inner_.submit(spec);
    const std::scoped_lock counting(mutex_);  // two at once must not both find the last place
    TRITIUM_TRY_ASSIGN(const bool full, is_full(*key));
    if (full)
      return Error{ErrorCode::busy, fmt::format("{} jobs of this key wait already, as many as it may have", *key->max_queued), "",
                   "wait until one has begun, or cancel one"};
    return inner_.submit(spec);
  }
  Result<Job> get(const std::string& id, const std::string& owner) override { return inner_.get(id, owner); }
  Result<JobPage> list(const JobQuery& query) override { return inner_.list(query); }
  Result<Job> cancel(const std::string& id, const std::string& owner) override { return inner_.cancel(id, owner); }
  Result<Job> remove(const std::string& id, const std::string& owner) override { return inner_.remove(id, owner); }
  Result<Job> wait(const std::string& id, const std::string& owner, std::chrono::milliseconds time) override {
    return inner_.wait(id, owner, time);
  }
  std::unique_ptr<Subscription> subscribe(const std::string& owner, const std::string& id, EventCallback callback) override {
    return inner_.subscribe(owner, id, std::move(callback));
  }
  [[nodiscard]] ServiceStatus status() override { return inner_.status(); }
  [[nodiscard]] const ServiceOptions& options() const override { return inner_.options(); }
  [[nodiscard]] std::string model_json() const override { return inner_.model_json(); }
  void free_memory() override { inner_.free_memory(); }
  void stop(double drain_seconds) override { inner_.stop(drain_seconds); }

 private:
  Result<bool> is_full(const http::ApiKey& key) {
    JobQuery query;
    query.owner = key.name;
    query.states = {JobState::queued};
    query.limit = 1000;
    std::size_t count = 0;
    for (;;) {
      TRITIUM_TRY_ASSIGN(const JobPage page, inner_.list(query));
      count += page.jobs.size();
      if (count >= static_cast<std::size_t>(*key.max_queued)) return true;
      if (!page.has_more || page.jobs.empty()) return false;
      query.after = page.jobs.back().id;
    }
  }

  JobService& inner_;
  std::shared_ptr<http::ApiKeys> keys_;
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<JobService> with_key_limits(JobService& inner, std::shared_ptr<http::ApiKeys> keys) {
  return std::make_unique<KeyLimits>(inner, std::move(keys));
}

}  // namespace tritium::cli
