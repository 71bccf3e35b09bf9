// What all threads of a service share.
#pragma once

#include "job/job_book.h"
#include "job/job_files.h"
#include "job/run_control.h"

#include <atomic>

namespace tritium {

// Counters since the start.
struct ServiceTotals {
  std::uint64_t completed = 0, cancelled = 0, steps = 0, tokens = 0;
  std::map<std::string, std::uint64_t> failed;
  std::map<std::string, double> stage_seconds;
  std::map<std::string, std::uint64_t> stage_runs;
};

struct ServiceState {
  ServiceOptions options;
  JobClock clock;
  std::unique_ptr<JobFiles> files;
  std::unique_ptr<JobBook> book;
  EngineOptions worker_engine;  // with the budgets of the start

  std::atomic<bool> draining{false};  // no more jobs are taken or begun
  std::atomic<bool> over{false};      // threads end

  std::mutex mutex;                 // guards what follows
  std::condition_variable changed;  // a job waits, a run ended, the service stops
  std::uint64_t arrivals = 0;       // counts reasons to look into the queue
  std::map<std::string, std::shared_ptr<RunControl>> runs;
  ServiceTotals totals;
  std::string trouble;  // why the store or the folder cannot be written; empty: they can

  void wake() {
    {
      const std::lock_guard lock(mutex);
      ++arrivals;
    }
    changed.notify_all();
  }
  void note_trouble(const std::string& reason) {
    const std::lock_guard lock(mutex);
    trouble = reason;
  }
  // Sleeps, but no longer than until the service ends.
  void pause(double seconds) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return over.load(); });
  }
};

}  // namespace tritium
