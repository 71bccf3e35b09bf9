// Where jobs are kept: the one truth about their states. Behind this interface lies a file of SQLite (sqlite_store.h); a database server
// for several machines has the same.
//
// A job is worked on under a lease. Its attempt is the fence: whoever holds an older one can change nothing any more. Every function may be
// called from any thread; each change is one transaction, and states are on the disk when it returns.
//
// Errors of all: busy with the reason (disk full, folder not writable, database damaged): nothing was changed, the same may work later.
#pragma once

#include "job/job.h"

#include <tritium/result.h>

#include <functional>

namespace tritium {

struct JobQuery;

// Wall clock for what people see, monotonic clock for everything that is decided; tests give others.
struct JobClock {
  std::function<UnixMillis()> wall;
  std::function<double()> monotonic;  // seconds
  static JobClock system();
};

struct Lease {
  std::string id;
  int attempt = 0;
};

struct QueuedJob {
  std::string id;
  std::int64_t sequence = 0;
  int priority = 0;
};

// For retention, oldest first. The age does not follow jumps of the wall clock: it counts the time that the service ran and at most a day
// of each time that it did not.
struct FinishedJob {
  std::string id;
  double age_days = 0;
  std::uint64_t bytes = 0;  // as reported with the end
};

// Why a lease is given back.
enum class Release {
  failed,       // the worker died or hung: counts against max_attempts
  interrupted,  // the service stops: counts for nothing
};

class JobStore {
 public:
  virtual ~JobStore() = default;

  // Stores a new job as queued, and returns it with its sequence. `fingerprint` of the request, for its idempotency key.
  // Error: conflict (the id or the key exists).
  virtual Result<Job> add(const Job& job, const std::string& fingerprint) = 0;
  // Takes up a job that another store lost, as it is; one that was running waits again. False: its id, sequence or key exists.
  virtual Result<bool> restore(const Job& job, const std::string& fingerprint, std::uint64_t bytes) = 0;
  virtual Result<std::optional<Job>> find(const std::string& id) = 0;
  struct Keyed {
    Job job;
    std::string fingerprint;
  };
  virtual Result<std::optional<Keyed>> find_key(const std::string& owner, const std::string& idempotency_key) = 0;
  struct Listed {
    std::vector<std::string> ids;
    bool has_more = false;
  };
  virtual Result<Listed> list(const JobQuery& query) = 0;
  // All that wait, in the order in which they will run.
  virtual Result<std::vector<QueuedJob>> queue() = 0;

  // The first of the queue becomes running under a new attempt; none when nothing waits.
  virtual Result<std::optional<Job>> lease(const std::string& worker, double seconds) = 0;
  // Prolongs the lease and keeps what was reached (progress, outputs, warnings). False: the lease is lost.
  virtual Result<bool> renew(const Lease& lease, const Job& reached, double seconds) = 0;
  // Back into the queue; or failed, when it has failed max_attempts times. Returns the job as it is then; none: the lease is lost.
  virtual Result<std::optional<Job>> release(const Lease& lease, const Job& reached, Release why) = 0;
  // The end, with everything in `done`. A job that somebody asked to cancel ends as cancelled. None: the lease is lost.
  virtual Result<std::optional<Job>> finish(const Lease& lease, const Job& done, std::uint64_t bytes) = 0;

  // A queued one becomes cancelled, a running one is marked, a finished one stays. None: there is no such job.
  virtual Result<std::optional<Job>> cancel(const std::string& id) = 0;
  // False: there is no such job.
  virtual Result<bool> remove(const std::string& id) = 0;
  // Jobs whose lease ran out are queued again (or failed) as by release(); returns them.
  virtual Result<std::vector<Job>> reclaim() = 0;

  virtual Result<std::vector<FinishedJob>> finished() = 0;
  virtual Result<std::vector<std::string>> ids() = 0;  // of all jobs
  // The beginning of 2^32 numbers for events that were never given before.
  virtual Result<std::uint64_t> reserve_event_ids() = 0;
  // Whether a change could be kept now.
  virtual Result<void> check_writable() = 0;
};

}  // namespace tritium
