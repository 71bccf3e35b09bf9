// All jobs as the service shows them: the store, and above it what is not worth a write for (progress, places in the queue), with the
// events that changes cause. Every change of a state goes through here, one at a time, so that nobody sees them in another order.
#pragma once

#include "job/event_hub.h"
#include "job/store.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>

namespace tritium {

class JobBook {
 public:
  using Snapshot = std::shared_ptr<const Job>;

  // `keep_days`: as in ServiceOptions, for Job::expires.
  static Result<std::unique_ptr<JobBook>> open(std::unique_ptr<JobStore> store, double keep_days);

  // For questions only.
  [[nodiscard]] JobStore& store() { return *store_; }
  [[nodiscard]] EventHub& events() { return *hub_; }

  // Runs a change of the store. The job that it gives, if any, is shown from then on; `also` runs before any other change can.
  using Change = std::function<Result<std::optional<Job>>(JobStore&)>;
  Result<std::optional<Job>> change(const Change& change, const std::function<void(const Job&)>& also = {});
  // The same for what may change several jobs (reclaim).
  Result<std::vector<Job>> change_all(const std::function<Result<std::vector<Job>>(JobStore&)>& change);
  // Null: there is no such job.
  Result<Snapshot> remove(const std::string& id);

  // Of a running job in this attempt, without the store: what is only shown.
  void show(const Job& running, JobEvent::Kind kind, std::shared_ptr<const std::string> preview = {});

  // Null: there is no such job, or not for this owner.
  Result<Snapshot> find(const std::string& id, const std::string& owner);
  Result<JobPage> list(const JobQuery& query);
  // Until the job is finished, gone, or the time is over.
  void wait(const std::string& id, std::chrono::milliseconds time);

  [[nodiscard]] std::size_t queued() const;
  [[nodiscard]] std::size_t running() const;

 private:
  JobBook(std::unique_ptr<JobStore> store, double keep_days, std::uint64_t first_event)
      : store_(std::move(store)), keep_days_(keep_days), hub_(std::make_unique<EventHub>(first_event)) {}

  struct Place {  // in the queue
    int priority = 0;
    std::int64_t sequence = 0;
    bool operator<(const Place& other) const { return priority != other.priority ? priority > other.priority : sequence < other.sequence; }
  };
  // Under cache_mutex_.
  void keep(const Snapshot& job);
  void dress(Job& job) const;
  Snapshot remember(Job job);

  std::unique_ptr<JobStore> store_;
  double keep_days_;
  std::unique_ptr<EventHub> hub_;
  std::mutex changing_;             // one change at a time; taken before cache_mutex_
  mutable std::mutex cache_mutex_;  // guards what follows
  std::condition_variable changed_;
  std::uint64_t changes_ = 0;
  std::map<std::string, Snapshot> known_;  // all running ones, and those asked for lately
  std::deque<std::string> recent_;         // ids in known_ that may go
  std::vector<Place> queue_;               // sorted
  std::set<std::string> running_;
};

}  // namespace tritium
