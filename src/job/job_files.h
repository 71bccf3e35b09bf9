// The data folder of a service.
//
//   lock                          held while a service uses the folder
//   jobs.db                       the store
//   workers/NAME                  number and start of a worker's process
//   spool/                        uploads on their way; emptied at the start
//   jobs/ID/job.json              a copy of the job, for a database that was lost
//   jobs/ID/inputs/NAME           the files that the request names
//   jobs/ID/ATTEMPT/N/            output N while it is made
//   jobs/ID/checkpoint/N/         where output N goes on after a death
//   jobs/ID/rejected/             a finished clip that is not acceptable
//   jobs/ID/results/N/            complete: moved here from ATTEMPT/N in one step, after everything was flushed
#pragma once

#include "job/job.h"

#include <tritium/result.h>

namespace tritium {

class JobFiles {
 public:
  // Makes the folder when it is missing. Errors: conflict (another process holds it), failure (cannot be made or written).
  static Result<std::unique_ptr<JobFiles>> open(const std::filesystem::path& data);
  ~JobFiles();
  JobFiles(const JobFiles&) = delete;
  JobFiles& operator=(const JobFiles&) = delete;

  [[nodiscard]] std::filesystem::path database() const { return data_ / "jobs.db"; }
  [[nodiscard]] std::filesystem::path checkpoint(const std::string& id, int output) const;

  // Workers of a server that was killed end by themselves, but what they hold is free only then. Waits for that, and ends those that do
  // not.
  void wait_for_old_workers() const;
  void note_worker(const std::string& name, int pid) const;

  // Makes the folder of a job with links to or copies of the request's files, whose names are changed to these. On error nothing is left.
  // Errors: usage naming the field (a file cannot be read), busy (disk full, not writable).
  Result<void> take_inputs(const std::string& id, Request& request) const;
  // The copy of the job beside its files.
  Result<void> note(const Job& job) const;
  // Of all folders with such a copy.
  [[nodiscard]] std::vector<Job> noted() const;

  // An empty folder for output n of an attempt.
  Result<std::filesystem::path> begin(const std::string& id, int attempt, int output) const;
  // Flushes what lies there and moves it to the results. Error: busy, failure.
  Result<JobOutput> publish(const std::string& id, int attempt, int output) const;
  // Puts aside what lies there, for people to look at: "rejected".
  void keep_rejected(const std::string& id, int attempt, int output) const;
  // An output that was published, whoever remembers it.
  [[nodiscard]] std::optional<JobOutput> published(const std::string& id, int output) const;

  // What attempts left, up to this one; with `checkpoints` also these.
  void clean(const std::string& id, int attempt, bool checkpoints) const;
  void remove(const std::string& id) const;
  [[nodiscard]] std::vector<std::string> folders() const;  // ids
  [[nodiscard]] std::uint64_t bytes(const std::string& id) const;

  // Whether so many bytes could be written now. Error: busy with the reason.
  [[nodiscard]] Result<void> check_writable(std::uint64_t bytes) const;

 private:
  JobFiles(std::filesystem::path data, int lock) : data_(std::move(data)), lock_(lock) {}
  [[nodiscard]] std::filesystem::path folder(const std::string& id) const { return data_ / "jobs" / id; }

  std::filesystem::path data_;
  int lock_;
};

}  // namespace tritium
