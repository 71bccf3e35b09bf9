#include "job/job_book.h"

#include "base/try.h"

#include <algorithm>

namespace tritium {
namespace {

constexpr std::size_t kKnown = 2000;  // jobs whose documents stay in memory, some 20 KB each
constexpr double kMillisPerDay = 86'400'000;

}  // namespace

Result<std::unique_ptr<JobBook>> JobBook::open(std::unique_ptr<JobStore> store, double keep_days) {
  TRITIUM_TRY_ASSIGN(const std::uint64_t first, store->reserve_event_ids());
  TRITIUM_TRY_ASSIGN(const auto queue, store->queue());
  std::unique_ptr<JobBook> out(new JobBook(std::move(store), keep_days, first));
  for (const QueuedJob& job : queue) out->queue_.push_back({job.priority, job.sequence});
  return out;
}

void JobBook::dress(Job& job) const {
  const Place place{job.spec.priority, job.sequence};
  job.queue_position =
      job.state == JobState::queued ? static_cast<int>(std::lower_bound(queue_.begin(), queue_.end(), place) - queue_.begin()) : -1;
  const bool expires = is_terminal(job.state) && keep_days_ > 0;
  job.expires = expires ? job.finished + static_cast<UnixMillis>(keep_days_ * kMillisPerDay) : 0;
}

void JobBook::keep(const Snapshot& job) {
  if (known_.insert_or_assign(job->id, job).second) recent_.push_back(job->id);
  for (std::size_t looked = recent_.size(); known_.size() > kKnown && looked > 0; --looked) {
    const std::string oldest = recent_.front();
    recent_.pop_front();
    if (running_.contains(oldest))
      recent_.push_back(oldest);
    else
      known_.erase(oldest);
  }
}

// A job that the store has changed.
JobBook::Snapshot JobBook::remember(Job job) {
  const std::lock_guard lock(cache_mutex_);
  const Place place{job.spec.priority, job.sequence};
  const auto at = std::lower_bound(queue_.begin(), queue_.end(), place);
  const bool listed = at != queue_.end() && !(place < *at);
  if (job.state == JobState::queued && !listed) queue_.insert(at, place);
  if (job.state != JobState::queued && listed) queue_.erase(at);
  if (job.state == JobState::running)
    running_.insert(job.id);
  else
    running_.erase(job.id);
  if (const auto before = known_.find(job.id); before != known_.end() && job.state == JobState::running &&
                                               before->second->state == JobState::running && before->second->attempt == job.attempt) {
    job.progress = before->second->progress;
    job.output = before->second->output;
  }
  dress(job);
  auto out = std::make_shared<const Job>(std::move(job));
  keep(out);
  ++changes_;
  changed_.notify_all();
  return out;
}

Result<std::optional<Job>> JobBook::change(const Change& change, const std::function<void(const Job&)>& also) {
  const std::lock_guard lock(changing_);
  TRITIUM_TRY_ASSIGN(auto job, change(*store_));
  if (!job) return job;
  if (also) also(*job);  // first: whoever sees the new state finds this done
  const Snapshot shown = remember(*job);
  hub_->publish(JobEvent::Kind::state, shown);
  return std::optional<Job>(*shown);
}

Result<std::vector<Job>> JobBook::change_all(const std::function<Result<std::vector<Job>>(JobStore&)>& change) {
  const std::lock_guard lock(changing_);
  TRITIUM_TRY_ASSIGN(const auto jobs, change(*store_));
  for (const Job& job : jobs) hub_->publish(JobEvent::Kind::state, remember(job));
  return jobs;
}

Result<JobBook::Snapshot> JobBook::remove(const std::string& id) {
  const std::lock_guard lock(changing_);
  TRITIUM_TRY_ASSIGN(auto job, store_->find(id));
  if (!job) return Snapshot();
  TRITIUM_TRY(store_->remove(id));
  Snapshot out;
  {
    const std::lock_guard cache(cache_mutex_);
    dress(*job);
    out = std::make_shared<const Job>(std::move(*job));
    std::erase_if(queue_, [&](const Place& place) { return place.sequence == out->sequence; });
    running_.erase(id);
    known_.erase(id);
    std::erase(recent_, id);
    ++changes_;
    changed_.notify_all();
  }
  hub_->publish(JobEvent::Kind::removed, out);
  return out;
}

void JobBook::show(const Job& running, JobEvent::Kind kind, std::shared_ptr<const std::string> preview) {
  Snapshot shown;
  {
    const std::lock_guard lock(cache_mutex_);
    const auto known = known_.find(running.id);
    if (known == known_.end() || known->second->state != JobState::running || known->second->attempt != running.attempt) return;
    Job next = *known->second;
    next.progress = running.progress;
    next.output = running.output;
    next.outputs = running.outputs;
    next.warnings = running.warnings;
    shown = std::make_shared<const Job>(std::move(next));
    known->second = shown;
  }
  hub_->publish(kind, std::move(shown), std::move(preview));
}

Result<JobBook::Snapshot> JobBook::find(const std::string& id, const std::string& owner) {
  const auto own = [&](Snapshot job) { return job && job->spec.owner == owner ? std::move(job) : Snapshot(); };
  const auto known = [&]() -> Snapshot {
    const auto found = known_.find(id);
    if (found == known_.end() || found->second->state != JobState::queued) return found == known_.end() ? Snapshot() : found->second;
    Job now = *found->second;  // others may have left the queue before it
    dress(now);
    return std::make_shared<const Job>(std::move(now));
  };
  std::unique_lock lock(cache_mutex_);
  if (auto job = known()) return own(std::move(job));
  const std::uint64_t seen = changes_;
  lock.unlock();
  TRITIUM_TRY_ASSIGN(auto stored, store_->find(id));
  if (!stored) return Snapshot();
  lock.lock();
  if (auto job = known()) return own(std::move(job));  // changed meanwhile
  dress(*stored);
  auto out = std::make_shared<const Job>(std::move(*stored));
  if (changes_ == seen) keep(out);  // otherwise it may have been removed
  return own(std::move(out));
}

Result<JobPage> JobBook::list(const JobQuery& query) {
  TRITIUM_TRY_ASSIGN(const auto listed, store_->list(query));
  JobPage out;
  out.has_more = listed.has_more;
  for (const std::string& id : listed.ids) {
    TRITIUM_TRY_ASSIGN(const auto job, find(id, query.owner));
    // Meanwhile it may have been removed, or have become something else.
    const auto wanted = [&](JobState state) {
      return query.states.empty() || std::ranges::find(query.states, state) != query.states.end();
    };
    if (job && wanted(job->state)) out.jobs.push_back(*job);
  }
  return out;
}

void JobBook::wait(const std::string& id, std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  std::unique_lock lock(cache_mutex_);
  for (;;) {
    const std::uint64_t seen = changes_;
    const auto known = known_.find(id);
    bool over = known != known_.end() && is_terminal(known->second->state);
    if (known == known_.end()) {  // the cache may have forgotten it
      lock.unlock();
      const auto stored = store_->find(id);
      lock.lock();
      over = !stored.ok() || !stored->has_value() || is_terminal((*stored)->state);
    }
    if (over || !changed_.wait_until(lock, until, [&] { return changes_ != seen; })) return;
  }
}

std::size_t JobBook::queued() const {
  const std::lock_guard lock(cache_mutex_);
  return queue_.size();
}
std::size_t JobBook::running() const {
  const std::lock_guard lock(cache_mutex_);
  return running_.size();
}

}  // namespace tritium
