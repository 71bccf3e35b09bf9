// Rows of the SQLite store as jobs, and the questions that change nothing. Private to it.
#pragma once

#include "job/service.h"
#include "job/sqlite_db.h"
#include "job/store.h"

#include <mutex>

namespace tritium::sqlite {

constexpr std::int64_t kMillisPerDay = 86'400'000;
// The beginning of every statement that read_one() reads.
constexpr const char* kRow = "SELECT document, sequence, state, cancel_requested, attempt, failures, crashes, fingerprint FROM jobs ";

struct Row {
  Job job;
  int failures = 0, crashes = 0;
  std::string fingerprint;
};
// The next row; none after the last.
Result<std::optional<Row>> read_one(Statement& statement);
Result<std::optional<Row>> find_row(Database& database, const std::string& id);

// Has a connection of its own, so that no question waits for a change to reach the disk.
class Questions : public JobStore {
 public:
  explicit Questions(std::unique_ptr<Database> reader) : reader_(std::move(reader)) {}

  Result<std::optional<Job>> find(const std::string& id) override;
  Result<std::optional<Keyed>> find_key(const std::string& owner, const std::string& key) override;
  Result<Listed> list(const JobQuery& query) override;
  Result<std::vector<QueuedJob>> queue() override;
  Result<std::vector<FinishedJob>> finished() override;
  Result<std::vector<std::string>> ids() override;

 protected:
  // Milliseconds that finished jobs were kept for.
  [[nodiscard]] virtual std::int64_t tick() const = 0;

 private:
  std::mutex reading_;
  std::unique_ptr<Database> reader_;
};

}  // namespace tritium::sqlite
