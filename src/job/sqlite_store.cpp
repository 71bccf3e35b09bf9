#include "job/sqlite_store.h"

#include "base/system.h"
#include "base/try.h"
#include "job/sqlite_rows.h"
#include "job/sqlite_schema.h"
#include "job/stored_job.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <mutex>

namespace tritium {
namespace fs = std::filesystem;
using namespace sqlite;
namespace {

// A job under which the whole service died so often is given up, however innocent it may be.
constexpr int kMostCrashes = 50;

// What was reached in an attempt, and nothing that the store decides itself.
void take_over(Job& job, const Job& reached) {
  job.worker = reached.worker;
  job.output = reached.output;
  job.progress = reached.progress;
  job.timings = reached.timings;
  job.warnings = reached.warnings;
  job.peak_memory_bytes = std::max(job.peak_memory_bytes, reached.peak_memory_bytes);
  job.outputs = reached.outputs;
  job.error = reached.error;
}

class SqliteStore final : public sqlite::Questions {
 public:
  SqliteStore(std::unique_ptr<Database> writer, std::unique_ptr<Database> reader, JobClock clock)
      : Questions(std::move(reader)), writer_(std::move(writer)), clock_(std::move(clock)), opened_(clock_.monotonic()) {}

  // The clock of ages goes on where it stood, and what an earlier process was working on waits again.
  Result<void> take_up() {
    TRITIUM_TRY_ASSIGN(const std::int64_t tick, meta("tick"));
    TRITIUM_TRY_ASSIGN(const std::int64_t wall, meta("wall"));
    const std::int64_t away = wall > 0 ? clock_.wall() - wall : 0;
    first_tick_ = tick + std::clamp<std::int64_t>(away, 0, kMillisPerDay);
    return requeue("state = 1", [](Row& row) { ++row.crashes; });
  }

  Result<Job> add(const Job& job, const std::string& fingerprint) override {
    const std::lock_guard lock(writing_);
    TRITIUM_TRY_ASSIGN(Transaction all, Transaction::begin(*writer_));
    TRITIUM_TRY_ASSIGN(const auto same_id, find_row(*writer_, job.id));
    if (same_id)
      return Error{ErrorCode::conflict, fmt::format("a job with the id '{}' exists; it is {}", job.id, job_state_name(same_id->job.state)),
                   "id", "choose another id, or none"};
    TRITIUM_TRY_ASSIGN(auto insert,
                       writer_->prepare("INSERT INTO jobs (id, owner, dialect, idempotency_key, fingerprint, priority, state, document) "
                                        "SELECT ?,?,?,?,?,?,0,? WHERE ?='' OR NOT EXISTS "
                                        "(SELECT 1 FROM jobs WHERE owner=? AND idempotency_key=? AND idempotency_key!='')"));
    const JobSpec& spec = job.spec;
    insert.bind(job.id).bind(spec.owner).bind(spec.dialect).bind(spec.idempotency_key).bind(fingerprint).bind(spec.priority);
    insert.bind(encode_job(job)).bind(spec.idempotency_key).bind(spec.owner).bind(spec.idempotency_key);
    TRITIUM_TRY(insert.run());
    if (writer_->changes() == 0)
      return Error{ErrorCode::conflict, "the idempotency key is in use", "idempotency_key", "ask again for the job with this key"};
    Job out = job;
    out.sequence = writer_->last_row();
    TRITIUM_TRY(keep_clock());
    TRITIUM_TRY(all.commit());
    return out;
  }

  Result<bool> restore(const Job& job, const std::string& fingerprint, std::uint64_t bytes) override {
    const std::lock_guard lock(writing_);
    Job kept = job;
    if (kept.state == JobState::running) kept.state = JobState::queued;
    TRITIUM_TRY_ASSIGN(auto insert,
                       writer_->prepare("INSERT OR IGNORE INTO jobs (sequence, id, owner, dialect, idempotency_key, fingerprint, "
                                        "priority, state, attempt, finished_tick, bytes, document) "
                                        "VALUES (nullif(?,0),?,?,?,?,?,?,?,?,?,?,?)"));
    const JobSpec& spec = kept.spec;
    insert.bind(kept.sequence).bind(kept.id).bind(spec.owner).bind(spec.dialect).bind(spec.idempotency_key).bind(fingerprint);
    insert.bind(spec.priority).bind(static_cast<int>(kept.state)).bind(kept.attempt).bind(tick()).bind(bytes).bind(encode_job(kept));
    TRITIUM_TRY(insert.run());
    return writer_->changes() > 0;
  }

  Result<std::optional<Job>> lease(const std::string& worker, double seconds) override {
    const std::lock_guard lock(writing_);
    TRITIUM_TRY_ASSIGN(Transaction all, Transaction::begin(*writer_));
    std::optional<Row> row;
    {
      TRITIUM_TRY_ASSIGN(auto first, writer_->prepare(std::string(kRow) + "WHERE state = 0 ORDER BY priority DESC, sequence LIMIT 1"));
      TRITIUM_TRY_ASSIGN(row, read_one(first));
    }
    if (!row) return std::optional<Job>();
    Job& job = row->job;
    job.state = JobState::running;
    ++job.attempt;
    job.worker = worker;
    job.progress = {};
    if (job.started == 0) job.started = clock_.wall();
    TRITIUM_TRY(write(*row, clock_.monotonic() + seconds, 0));
    TRITIUM_TRY(all.commit());
    return std::optional<Job>(std::move(job));
  }

  Result<bool> renew(const Lease& lease, const Job& reached, double seconds) override {
    TRITIUM_TRY_ASSIGN(const auto job, change(lease, [&](Row& row) {
                         take_over(row.job, reached);
                         return seconds;
                       }));
    return job.has_value();
  }

  Result<std::optional<Job>> release(const Lease& lease, const Job& reached, Release why) override {
    return change(lease, [&](Row& row) {
      take_over(row.job, reached);
      if (why == Release::failed) ++row.failures;
      give_back(row);
      return 0.0;
    });
  }

  Result<std::optional<Job>> finish(const Lease& lease, const Job& done, std::uint64_t bytes) override {
    return change(
        lease,
        [&](Row& row) {
          take_over(row.job, done);
          row.job.state = row.job.cancel_requested ? JobState::cancelled : done.state;
          if (row.job.state == JobState::cancelled) row.job.error.reset();
          row.job.finished = clock_.wall();
          return 0.0;
        },
        bytes);
  }

  Result<std::optional<Job>> cancel(const std::string& id) override {
    const std::lock_guard lock(writing_);
    TRITIUM_TRY_ASSIGN(Transaction all, Transaction::begin(*writer_));
    TRITIUM_TRY_ASSIGN(auto row, find_row(*writer_, id));
    if (!row) return std::optional<Job>();
    Job& job = row->job;
    if (is_terminal(job.state) || job.cancel_requested) return std::optional<Job>(std::move(job));
    job.cancel_requested = true;
    if (job.state == JobState::queued) {
      job.state = JobState::cancelled;
      job.finished = clock_.wall();
      job.error.reset();
      TRITIUM_TRY(write(*row, 0, 0));
    } else {
      TRITIUM_TRY_ASSIGN(auto mark, writer_->prepare("UPDATE jobs SET cancel_requested = 1 WHERE id = ?"));
      TRITIUM_TRY(mark.bind(id).run());
    }
    TRITIUM_TRY(all.commit());
    return std::optional<Job>(std::move(job));
  }

  Result<bool> remove(const std::string& id) override {
    const std::lock_guard lock(writing_);
    TRITIUM_TRY_ASSIGN(auto statement, writer_->prepare("DELETE FROM jobs WHERE id = ?"));
    TRITIUM_TRY(statement.bind(id).run());
    return writer_->changes() > 0;
  }

  Result<std::vector<Job>> reclaim() override {
    std::vector<Job> out;
    TRITIUM_TRY(requeue(
        "state = 1 AND lease_until < ?1",
        [](Row& row) {
          ++row.failures;
          row.job.error =
              JobError{ErrorCode::device, "the worker did not report in time and was given up", "", "", row.job.progress.stage, ""};
        },
        &out));
    return out;
  }

  Result<std::uint64_t> reserve_event_ids() override {
    const std::lock_guard lock(writing_);
    TRITIUM_TRY_ASSIGN(Transaction all, Transaction::begin(*writer_));
    TRITIUM_TRY_ASSIGN(const std::int64_t before, meta("events"));
    TRITIUM_TRY(set_meta("events", before + 1));
    TRITIUM_TRY(all.commit());
    return static_cast<std::uint64_t>(before + 1) << 32;
  }

  Result<void> check_writable() override {
    const std::lock_guard lock(writing_);
    TRITIUM_TRY_ASSIGN(Transaction all, Transaction::begin(*writer_));
    TRITIUM_TRY(keep_clock());
    return all.commit();
  }

 private:
  // Milliseconds that finished jobs were kept for.
  [[nodiscard]] std::int64_t tick() const override {
    return first_tick_ + static_cast<std::int64_t>((clock_.monotonic() - opened_) * 1000);
  }

  Result<std::int64_t> meta(const char* name) {
    TRITIUM_TRY_ASSIGN(auto statement, writer_->prepare("SELECT value FROM meta WHERE name = ?"));
    TRITIUM_TRY_ASSIGN(const bool there, statement.bind(std::string_view(name)).step());
    return there ? statement.integer(0) : 0;
  }
  Result<void> set_meta(const char* name, std::int64_t value) {
    TRITIUM_TRY_ASSIGN(auto statement, writer_->prepare("INSERT OR REPLACE INTO meta VALUES (?,?)"));
    return statement.bind(std::string_view(name)).bind(value).run();
  }
  Result<void> keep_clock() {
    TRITIUM_TRY(set_meta("tick", tick()));
    return set_meta("wall", clock_.wall());
  }

  Result<void> write(const Row& row, double lease_until, std::uint64_t bytes) {
    TRITIUM_TRY_ASSIGN(auto statement,
                       writer_->prepare("UPDATE jobs SET state=?, cancel_requested=?, attempt=?, failures=?, crashes=?, lease_until=?, "
                                        "finished_tick=?, bytes=?, document=? WHERE id=?"));
    const Job& job = row.job;
    statement.bind(static_cast<int>(job.state)).bind(static_cast<int>(job.cancel_requested)).bind(job.attempt).bind(row.failures);
    statement.bind(row.crashes).bind(lease_until).bind(is_terminal(job.state) ? tick() : 0).bind(bytes).bind(encode_job(job)).bind(job.id);
    TRITIUM_TRY(statement.run());
    return keep_clock();
  }

  // One change of a job under its lease; `edit` returns for how long the lease holds afterwards. None: the lease is lost.
  template <class Edit>
  Result<std::optional<Job>> change(const Lease& lease, const Edit& edit, std::uint64_t bytes = 0) {
    const std::lock_guard lock(writing_);
    TRITIUM_TRY_ASSIGN(Transaction all, Transaction::begin(*writer_));
    TRITIUM_TRY_ASSIGN(auto row, find_row(*writer_, lease.id));
    if (!row || row->job.state != JobState::running || row->job.attempt != lease.attempt) return std::optional<Job>();
    const double seconds = edit(*row);
    TRITIUM_TRY(write(*row, seconds > 0 ? clock_.monotonic() + seconds : 0, bytes));
    TRITIUM_TRY(all.commit());
    return std::optional<Job>(std::move(row->job));
  }

  // Out of a worker's hands: into the queue, or to an end if there is no sense in another attempt.
  void give_back(Row& row) const {
    Job& job = row.job;
    const bool spent = row.failures >= job.max_attempts, deadly = row.crashes >= kMostCrashes;
    job.state = job.cancel_requested ? JobState::cancelled : spent || deadly ? JobState::failed : JobState::queued;
    if (job.state == JobState::failed && !spent)
      job.error = JobError{ErrorCode::failure,
                           fmt::format("the service died {} times while it worked on this job", row.crashes),
                           "",
                           "",
                           job.progress.stage,
                           ""};
    if (job.state == JobState::cancelled) job.error.reset();
    if (is_terminal(job.state)) job.finished = clock_.wall();
  }

  // All jobs that a condition holds for (?1: the monotonic clock).
  template <class Edit>
  Result<void> requeue(const std::string& condition, const Edit& edit, std::vector<Job>* changed = nullptr) {
    const std::lock_guard lock(writing_);
    TRITIUM_TRY_ASSIGN(Transaction all, Transaction::begin(*writer_));
    std::vector<Row> rows;
    {
      TRITIUM_TRY_ASSIGN(auto statement, writer_->prepare(kRow + ("WHERE " + condition)));
      if (changed != nullptr) statement.bind(clock_.monotonic());
      for (;;) {
        TRITIUM_TRY_ASSIGN(auto row, read_one(statement));
        if (!row) break;
        rows.push_back(std::move(*row));
      }
    }
    for (Row& row : rows) {
      edit(row);
      give_back(row);
      TRITIUM_TRY(write(row, 0, 0));
      if (changed != nullptr) changed->push_back(std::move(row.job));
    }
    TRITIUM_TRY(keep_clock());
    return all.commit();
  }

  std::mutex writing_;
  std::unique_ptr<Database> writer_;
  JobClock clock_;
  double opened_;
  std::int64_t first_tick_ = 0;
};

Result<std::unique_ptr<Database>> open_writer(const fs::path& file) {
  TRITIUM_TRY_ASSIGN(auto out, Database::open(file, /*only_read=*/false));
  TRITIUM_TRY(
      out->execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; "
                   "PRAGMA journal_size_limit = 8388608; PRAGMA trusted_schema = OFF"));
  return out;
}

enum class Content { sound, damaged };
Result<Content> examine(const fs::path& file) {
  TRITIUM_TRY_ASSIGN(auto database, Database::open(file, /*only_read=*/false));
  const auto sound = sqlite::is_sound(*database);
  if (!sound.ok() && !database->damaged()) return sound.error();
  return sound.ok() && *sound ? Content::sound : Content::damaged;
}

// The damaged file and its log get other names; the jobs in it go into a new one.
Result<void> replace_damaged(const fs::path& file, StoreHealth& health) {
  const std::string mark = ".damaged-" + utc_timestamp();
  health.damaged = fs::path(file) += mark;
  for (int i = 1; fs::exists(health.damaged); ++i) health.damaged = fs::path(file) += fmt::format("{}-{}", mark, i);
  const fs::path fresh = fs::path(file) += ".new";
  std::error_code failed;
  for (const char* part : {"", "-wal", "-shm"}) fs::remove(fs::path(fresh) += part, failed);
  {
    TRITIUM_TRY_ASSIGN(auto target, Database::open(fresh, /*only_read=*/false));
    TRITIUM_TRY(target->execute("PRAGMA synchronous = FULL"));
    TRITIUM_TRY(sqlite::migrate(*target));
    health.saved = sqlite::rescue(file, *target);
  }
  for (const char* part : {"-wal", "-shm", ""})
    if (const fs::path from = fs::path(file) += part; fs::exists(from, failed)) fs::rename(from, fs::path(health.damaged) += part, failed);
  if (!failed) fs::rename(fresh, file, failed);
  if (failed)
    return Error{ErrorCode::failure,
                 fmt::format("the job database '{}' is damaged and cannot be moved aside: {}", file.string(), failed.message()), "",
                 "move it away by hand; what could be read is in '" + fresh.string() + "'"};
  return {};
}

}  // namespace

JobClock JobClock::system() {
  const auto wall = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  return {wall, monotonic_seconds};
}

Result<std::unique_ptr<JobStore>> open_sqlite_store(const fs::path& file, const JobClock& clock, StoreHealth* health) {
  StoreHealth found;
  std::error_code ignored;
  found.made = !fs::exists(file, ignored);
  if (!found.made) {
    TRITIUM_TRY_ASSIGN(const Content content, examine(file));
    if (content == Content::damaged) TRITIUM_TRY(replace_damaged(file, found));
  }
  TRITIUM_TRY_ASSIGN(auto writer, open_writer(file));
  TRITIUM_TRY(sqlite::migrate(*writer));
  TRITIUM_TRY_ASSIGN(auto reader, Database::open(file, /*only_read=*/false));
  TRITIUM_TRY(reader->execute("PRAGMA query_only = ON"));
  auto store = std::make_unique<SqliteStore>(std::move(writer), std::move(reader), clock);
  TRITIUM_TRY(store->take_up());
  if (health != nullptr) *health = found;
  return std::unique_ptr<JobStore>(std::move(store));
}

}  // namespace tritium
