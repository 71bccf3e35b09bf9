// The service behind every dialect: takes jobs, runs them in worker processes, tells what happens. All functions may be called from any
// thread; those that reach the disk may take milliseconds, plan() and submit() a tenth of a second.
#pragma once

#include "job/job.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>

namespace tritium {

struct ServiceOptions {
  EngineOptions engine;                     // the model, and what all workers share
  std::vector<std::string> workers;         // device of each worker as in EngineOptions::device; empty: one with engine.device
  std::filesystem::path data;               // database, inputs, results and checkpoints; made when missing, locked while in use
  int max_queued = 1000;                    // jobs waiting; more are refused as busy
  int max_attempts = 3;                     // of a job, when its worker dies or hangs
  int checkpoint_steps = 5;                 // denoising steps between checkpoints; 0: only after stages
  double stall_seconds = 600;               // a worker that says nothing for so long is ended
  double drain_seconds = 30;                // on shutdown: a running job may still finish in this time, then it is kept at its checkpoint
  double keep_days = 30;                    // finished jobs and their files; 0: for ever
  std::size_t keep_count = 0;               // finished jobs, the newest; 0: any number
  std::uint64_t keep_bytes = 0;             // of files of finished jobs; 0: any
  bool previews = true;                     // pictures of running jobs
  std::vector<std::string> worker_command;  // empty: this program's own "worker"; tests give another
};

// Something happened to a job. `job` is its state after that.
struct JobEvent {
  enum class Kind { state, progress, preview, removed };
  std::uint64_t id = 0;  // grows over all events of this process; a restart begins above every id given before
  Kind kind = Kind::state;
  std::shared_ptr<const Job> job;
  std::shared_ptr<const std::string> preview;  // a JPEG, of kind preview
};

struct JobQuery {
  std::string owner{};             // only this owner's
  std::string dialect{};           // empty: any
  std::vector<JobState> states{};  // empty: any
  std::string after{};             // id of the last job of the page before
  std::size_t limit = 20;          // 1..1000
  bool oldest_first = false;
};
struct JobPage {
  std::vector<Job> jobs;
  bool has_more = false;
};

struct WorkerStatus {
  std::string name, device;
  std::string state;  // "starting", "idle", "working", "waiting" (to start again after a death), "stopped"
  std::string job;    // that it works on
  std::uint64_t memory_bytes = 0;
  int restarts = 0;
};
struct ServiceStatus {
  bool ready = false;  // a worker can take jobs and the store can be written
  std::string reason;  // why not
  bool draining = false;
  std::size_t queued = 0, running = 0;
  std::vector<WorkerStatus> workers;
  // Since the server started.
  std::uint64_t completed = 0, cancelled = 0;
  std::map<std::string, std::uint64_t> failed;  // by reason: "model", "device", "rejected", "worker died", ...
  std::map<std::string, double> stage_seconds;  // by stage, sums
  std::map<std::string, std::uint64_t> stage_runs;
  std::uint64_t steps = 0;   // denoising
  std::uint64_t tokens = 0;  // rows of the transformer, over all steps
};

struct Submitted {
  Job job;
  bool existing = false;  // the idempotency key was known: nothing new was started
};

class JobService {
 public:
  // Opens the data folder, checks the model, takes up what an earlier process left (running jobs are queued again) and starts the workers.
  // Errors: conflict (another server uses the folder), model, usage, failure.
  static Result<std::unique_ptr<JobService>> start(const ServiceOptions& options);
  virtual ~JobService() = default;  // as stop(0)

  // What would be done. Errors as Engine::plan(): usage, does_not_fit, model.
  virtual Result<Plan> plan(const Request& request) = 0;

  // Checks and plans the request and stores it; when this returns the job survives everything. Errors as plan(), and: conflict (the id is
  // taken, or the idempotency key belongs to another request), busy (queue full, shutting down, disk full).
  virtual Result<Submitted> submit(const JobSpec& spec) = 0;

  // Error: not_found, also for jobs of other owners.
  virtual Result<Job> get(const std::string& id, const std::string& owner) = 0;
  virtual Result<JobPage> list(const JobQuery& query) = 0;

  // A queued job is cancelled at once, a running one within a block of the transformer; a finished one stays what it is. Returns the job as
  // it is now. Errors: not_found.
  virtual Result<Job> cancel(const std::string& id, const std::string& owner) = 0;
  // Cancels, waits for the worker to let go, removes the job with its files. Error: not_found.
  virtual Result<Job> remove(const std::string& id, const std::string& owner) = 0;

  // Waits until the job is finished or the time is over; returns it as it is then. Error: not_found.
  virtual Result<Job> wait(const std::string& id, const std::string& owner, std::chrono::milliseconds time) = 0;

  // Calls back for every later event of this owner's jobs, or of one of them, until the subscription is dropped. Called on a thread of the
  // service: must return at once and must not call the service. After the subscription's destructor returned nothing is called any more.
  class Subscription {
   public:
    virtual ~Subscription() = default;
  };
  using EventCallback = std::function<void(const JobEvent&)>;
  virtual std::unique_ptr<Subscription> subscribe(const std::string& owner, const std::string& id, EventCallback callback) = 0;

  [[nodiscard]] virtual ServiceStatus status() = 0;
  [[nodiscard]] virtual const ServiceOptions& options() const = 0;
  [[nodiscard]] virtual std::string model_json() const = 0;  // as Engine::model_json()

  // Weights leave the memory of idle workers; they come back with the next job.
  virtual void free_memory() = 0;

  // Takes no more jobs, gives the running ones this time, keeps what they have reached, ends the workers.
  virtual void stop(double drain_seconds) = 0;
};

}  // namespace tritium
