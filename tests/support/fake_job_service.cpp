#include "support/fake_job_service.h"

#include "base/hash.h"
#include "base/try.h"
#include "support/fake_job_files.h"

#include <algorithm>

namespace tritium::test {
namespace fs = std::filesystem;

struct FakeJobService::Listener {
  std::string owner, id;
  EventCallback callback;
};

class FakeJobService::Listening : public JobService::Subscription {
 public:
  Listening(FakeJobService& service, std::shared_ptr<Listener> listener) : service_(service), listener_(std::move(listener)) {}
  ~Listening() override {
    const std::scoped_lock lock(service_.mutex_);
    service_.listeners_.remove(listener_);
  }

 private:
  FakeJobService& service_;
  std::shared_ptr<Listener> listener_;
};

FakeJobService::FakeJobService(ServiceOptions options) : options_(std::move(options)) {
  if (options_.data.empty()) options_.data = folder_.path();
  status_.ready = true;
  status_.workers = {{"worker-0", "CPU", "idle", "", 1u << 30, 0}};
  model_json_ = R"({"name": "MiniMax-H3", "family": "MiniMax-H3", "partition": "FL2VA",
                    "defaults": {"width": 1344, "height": 768, "frames": 124, "steps": 50, "video_shift": 12.0, "audio_shift": 3.0}})";
}

FakeJobService::~FakeJobService() { EXPECT_TRUE(listeners_.empty()) << "a subscription outlives the service"; }

Job* FakeJobService::find(const std::string& id) {
  const auto at = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.id == id; });
  return at == jobs_.end() ? nullptr : &*at;
}

Job& FakeJobService::known(const std::string& id) {
  Job* job = find(id);
  if (job == nullptr) {
    ADD_FAILURE() << "there is no job " << id;
    std::abort();
  }
  return *job;
}

void FakeJobService::check_state(const Job& job, JobState wanted) const {
  EXPECT_EQ(static_cast<int>(job.state), static_cast<int>(wanted)) << "of job " << job.id;
}

void FakeJobService::place_in_queue() {
  std::vector<Job*> waiting;
  for (Job& job : jobs_) {
    job.queue_position = -1;
    if (job.state == JobState::queued) waiting.push_back(&job);
  }
  std::stable_sort(waiting.begin(), waiting.end(), [](const Job* a, const Job* b) { return a->spec.priority > b->spec.priority; });
  for (std::size_t i = 0; i < waiting.size(); ++i) waiting[i]->queue_position = static_cast<int>(i);
}

void FakeJobService::tell(JobEvent::Kind kind, const Job& job, std::shared_ptr<const std::string> preview) {
  const JobEvent event{next_event_++, kind, std::make_shared<const Job>(job), std::move(preview)};
  for (const auto& listener : listeners_)
    if (listener->owner == job.spec.owner && (listener->id.empty() || listener->id == job.id)) listener->callback(event);
  changed_.notify_all();
}

Job FakeJobService::run(const std::string& id, const std::string& worker) {
  const std::scoped_lock lock(mutex_);
  Job& job = known(id);
  check_state(job, JobState::queued);
  job.state = JobState::running;
  job.attempt += 1;
  job.worker = worker;
  job.started = clock_ += 1000;
  job.error.reset();
  job.progress = {"load", 0, 0, 0, job.plan.expected_seconds};
  place_in_queue();
  tell(JobEvent::Kind::state, job);
  return job;
}

Job FakeJobService::progress(const std::string& id, const Progress& progress, int output) {
  const std::scoped_lock lock(mutex_);
  Job& job = known(id);
  check_state(job, JobState::running);
  job.progress = progress;
  job.output = output;
  tell(JobEvent::Kind::progress, job);
  return job;
}

void FakeJobService::preview(const std::string& id, std::string jpeg) {
  const std::scoped_lock lock(mutex_);
  const Job& job = known(id);
  check_state(job, JobState::running);
  tell(JobEvent::Kind::preview, job, std::make_shared<const std::string>(std::move(jpeg)));
}

JobOutput FakeJobService::write_output(const Job& job, int index, std::string_view video, std::string_view thumbnail) const {
  const fs::path folder = options_.data / "results" / job.id;
  fs::create_directories(folder);
  const std::string name = std::to_string(index);
  std::string bytes(video);
  if (index > 0) bytes += " of output " + name;  // no two outputs are the same
  JobOutput out;
  out.video = write_whole(folder / (name + ".mp4"), bytes);
  out.sidecar = write_whole(folder / (name + ".mp4.json"), "{}");
  out.thumbnail = write_whole(folder / (name + ".jpg"), thumbnail);
  out.bytes = bytes.size();
  out.sha256 = sha256_hex(bytes);
  out.seed = job.plan.seed + static_cast<std::uint64_t>(index);
  return out;
}

Job FakeJobService::finish(Job& job, JobState state) {
  job.state = state;
  job.finished = clock_ += 1000;
  if (options_.keep_days > 0) job.expires = job.finished + static_cast<UnixMillis>(options_.keep_days * 86'400'000);
  place_in_queue();
  tell(JobEvent::Kind::state, job);
  return job;
}

Job FakeJobService::complete(const std::string& id, std::string_view video, std::string_view thumbnail) {
  const std::scoped_lock lock(mutex_);
  Job& job = known(id);
  check_state(job, JobState::running);
  for (int i = 0; i < job.spec.outputs; ++i) job.outputs.push_back(write_output(job, i, video, thumbnail));
  job.progress = {"write", 1, 1, 1, 0};
  job.timings = {{"load", 0.5}, {"text", 0.25}, {"denoise", 4}, {"video", 1}, {"audio", 0.25}, {"write", 0.125}};
  job.peak_memory_bytes = 512u << 20;
  status_.completed += 1;
  return finish(job, JobState::completed);
}

Job FakeJobService::fail(const std::string& id, JobError error) {
  const std::scoped_lock lock(mutex_);
  Job& job = known(id);
  check_state(job, JobState::running);
  job.error = std::move(error);
  status_.failed[job.error->code == ErrorCode::rejected ? "rejected" : "failure"] += 1;
  return finish(job, JobState::failed);
}

Job FakeJobService::requeue(const std::string& id, JobError why) {
  const std::scoped_lock lock(mutex_);
  Job& job = known(id);
  check_state(job, JobState::running);
  job.state = JobState::queued;
  job.error = std::move(why);
  place_in_queue();
  tell(JobEvent::Kind::state, job);
  return job;
}

Job FakeJobService::stop_running(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  Job& job = known(id);
  check_state(job, JobState::running);
  EXPECT_TRUE(job.cancel_requested);
  status_.cancelled += 1;
  return finish(job, JobState::cancelled);
}

void FakeJobService::complete_at_once(bool on) {
  const std::scoped_lock lock(mutex_);
  complete_at_once_ = on;
}

void FakeJobService::refuse_next(Error error) {
  const std::scoped_lock lock(mutex_);
  refusal_ = std::move(error);
}

void FakeJobService::set_status(ServiceStatus status) {
  const std::scoped_lock lock(mutex_);
  status_ = std::move(status);
}

void FakeJobService::set_model_json(std::string json) {
  const std::scoped_lock lock(mutex_);
  model_json_ = std::move(json);
}

std::vector<Job> FakeJobService::jobs() const {
  const std::scoped_lock lock(mutex_);
  return {jobs_.begin(), jobs_.end()};
}

std::vector<Request> FakeJobService::planned() const {
  const std::scoped_lock lock(mutex_);
  return planned_;
}

std::size_t FakeJobService::subscriptions() const {
  const std::scoped_lock lock(mutex_);
  return listeners_.size();
}

int FakeJobService::freed() const {
  const std::scoped_lock lock(mutex_);
  return freed_;
}

std::optional<double> FakeJobService::stopped() const {
  const std::scoped_lock lock(mutex_);
  return stopped_;
}

Result<Plan> FakeJobService::plan(const Request& request) {
  const std::scoped_lock lock(mutex_);
  planned_.push_back(request);
  if (refusal_) return *std::exchange(refusal_, std::nullopt);
  return plan_like_the_engine(request);
}

Result<Submitted> FakeJobService::submit(const JobSpec& spec) {
  const std::scoped_lock lock(mutex_);
  if (stopped_) return Error{ErrorCode::busy, "the service is shutting down", "", "try again later"};
  for (const Job& job : jobs_)
    if (!spec.idempotency_key.empty() && job.spec.owner == spec.owner && job.spec.idempotency_key == spec.idempotency_key) {
      if (job.spec.request.prompt == spec.request.prompt) return Submitted{job, true};
      return Error{ErrorCode::conflict, "belongs to another request", "idempotency_key", "use a new key for a new request"};
    }
  if (!spec.id.empty() && find(spec.id) != nullptr) return Error{ErrorCode::conflict, "job " + spec.id + " exists already", "id", ""};
  TRITIUM_TRY_ASSIGN(Plan decided, plan(spec.request));
  Job job;
  job.id = spec.id.empty() ? "job_" + std::to_string(next_sequence_) : spec.id;
  job.sequence = next_sequence_++;
  job.spec = spec;
  job.spec.request = with_own_files(spec.request, options_.data / "inputs" / job.id);
  job.max_attempts = options_.max_attempts;
  job.created = clock_ += 1000;
  job.plan_json = plan_json(decided);
  job.warnings = decided.warnings;
  job.plan = std::move(decided);
  jobs_.push_back(std::move(job));
  place_in_queue();
  const std::string id = jobs_.back().id;
  tell(JobEvent::Kind::state, jobs_.back());
  if (complete_at_once_) {
    run(id);
    complete(id);
  }
  return Submitted{known(id), false};
}

Result<Job> FakeJobService::get(const std::string& id, const std::string& owner) {
  const std::scoped_lock lock(mutex_);
  const Job* job = find(id);
  if (job == nullptr || job->spec.owner != owner) return Error{ErrorCode::not_found, "there is no job '" + id + "'", "id", ""};
  return *job;
}

Result<JobPage> FakeJobService::list(const JobQuery& query) {
  const std::scoped_lock lock(mutex_);
  std::vector<Job> all(jobs_.begin(), jobs_.end());
  if (!query.oldest_first) std::reverse(all.begin(), all.end());
  std::erase_if(all, [&](const Job& job) {
    return job.spec.owner != query.owner || (!query.dialect.empty() && job.spec.dialect != query.dialect) ||
           (!query.states.empty() && std::find(query.states.begin(), query.states.end(), job.state) == query.states.end());
  });
  if (!query.after.empty()) {
    TRITIUM_TRY_ASSIGN(const Job last, get(query.after, query.owner));
    std::erase_if(all, [&](const Job& job) { return query.oldest_first ? job.sequence <= last.sequence : job.sequence >= last.sequence; });
  }
  JobPage page;
  page.has_more = all.size() > query.limit;
  all.resize(std::min(all.size(), query.limit));
  page.jobs = std::move(all);
  return page;
}

Result<Job> FakeJobService::cancel(const std::string& id, const std::string& owner) {
  const std::scoped_lock lock(mutex_);
  TRITIUM_TRY(get(id, owner));
  Job& job = known(id);
  if (job.state == JobState::queued) {
    status_.cancelled += 1;
    return finish(job, JobState::cancelled);
  }
  if (job.state == JobState::running && !job.cancel_requested) {
    job.cancel_requested = true;
    tell(JobEvent::Kind::state, job);
  }
  return job;
}

Result<Job> FakeJobService::remove(const std::string& id, const std::string& owner) {
  const std::scoped_lock lock(mutex_);
  TRITIUM_TRY(cancel(id, owner));
  Job& job = known(id);
  if (job.state == JobState::running) finish(job, JobState::cancelled);
  const Job gone = job;
  std::error_code ignored;
  for (const char* kind : {"results", "inputs"}) fs::remove_all(options_.data / kind / id, ignored);
  jobs_.remove_if([&](const Job& other) { return other.id == id; });
  tell(JobEvent::Kind::removed, gone);
  return gone;
}

Result<Job> FakeJobService::wait(const std::string& id, const std::string& owner, std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  TRITIUM_TRY(get(id, owner));
  changed_.wait_for(lock, time, [&] {
    const Job* job = find(id);
    return job == nullptr || is_terminal(job->state);
  });
  return get(id, owner);
}

std::unique_ptr<JobService::Subscription> FakeJobService::subscribe(const std::string& owner, const std::string& id,
                                                                    EventCallback callback) {
  const std::scoped_lock lock(mutex_);
  listeners_.push_back(std::make_shared<Listener>(Listener{owner, id, std::move(callback)}));
  return std::make_unique<Listening>(*this, listeners_.back());
}

ServiceStatus FakeJobService::status() {
  const std::scoped_lock lock(mutex_);
  ServiceStatus out = status_;
  const auto count = [&](JobState state) {
    return static_cast<std::size_t>(std::count_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.state == state; }));
  };
  out.queued = count(JobState::queued);
  out.running = count(JobState::running);
  out.draining = stopped_.has_value();
  return out;
}

std::string FakeJobService::model_json() const {
  const std::scoped_lock lock(mutex_);
  return model_json_;
}

void FakeJobService::free_memory() {
  const std::scoped_lock lock(mutex_);
  freed_ += 1;
}

void FakeJobService::stop(double drain_seconds) {
  const std::scoped_lock lock(mutex_);
  stopped_ = drain_seconds;
}

}  // namespace tritium::test
