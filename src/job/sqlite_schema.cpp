#include "job/sqlite_schema.h"

#include "base/try.h"
#include "job/stored_job.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <set>

namespace tritium::sqlite {
namespace {

// Columns are what is searched by or changed alone; `document` is the job as encode_job() gives it, whose copies of them do not count.
// States are numbers of JobState: 0 queued, 1 running, from 2 on final.
constexpr const char* kVersion1 = R"(
CREATE TABLE jobs (
  sequence         INTEGER PRIMARY KEY AUTOINCREMENT,
  id               TEXT    NOT NULL UNIQUE,
  owner            TEXT    NOT NULL,
  dialect          TEXT    NOT NULL,
  idempotency_key  TEXT    NOT NULL,
  fingerprint      TEXT    NOT NULL,
  priority         INTEGER NOT NULL,
  state            INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4),
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  attempt          INTEGER NOT NULL DEFAULT 0,
  failures         INTEGER NOT NULL DEFAULT 0,  -- attempts whose worker died or hung
  crashes          INTEGER NOT NULL DEFAULT 0,  -- times that the whole service died under it
  lease_until      REAL    NOT NULL DEFAULT 0,  -- monotonic seconds of the process that runs it
  finished_tick    INTEGER NOT NULL DEFAULT 0,  -- milliseconds of the clock in meta
  bytes            INTEGER NOT NULL DEFAULT 0,
  document         TEXT    NOT NULL
);
CREATE UNIQUE INDEX jobs_by_key ON jobs (owner, idempotency_key) WHERE idempotency_key != '';
CREATE INDEX jobs_by_state ON jobs (state, priority DESC, sequence);
CREATE INDEX jobs_by_owner ON jobs (owner, sequence);
CREATE TRIGGER final_states_stay BEFORE UPDATE OF state ON jobs WHEN OLD.state >= 2 AND NEW.state != OLD.state
BEGIN SELECT RAISE(ABORT, 'a finished job cannot change its state'); END;
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
)";
constexpr std::array<const char*, kSchemaVersion> kMigrations = {kVersion1};

constexpr const char* kColumns =
    "sequence,id,owner,dialect,idempotency_key,fingerprint,priority,state,cancel_requested,attempt,failures,crashes,finished_tick,bytes,"
    "document";

// A row as it came, if it makes sense: pages that were overwritten can look like rows.
bool copy_row(const Statement& row, Database& target) {
  const std::string document = row.text(14);
  const auto job = decode_job(document);
  const std::int64_t state = row.integer(7);
  if (!job.ok() || job->id.empty() || job->id != row.text(1) || state < 0 || state > 4) return false;
  auto insert = target.prepare(fmt::format("INSERT OR IGNORE INTO jobs ({}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", kColumns));
  if (!insert.ok()) return false;
  constexpr std::array kText = {1, 2, 3, 4, 5, 14};
  for (int i = 0; i < 15; ++i) {
    if (std::find(kText.begin(), kText.end(), i) != kText.end())
      insert->bind(row.text(i));
    else
      insert->bind(row.integer(i));
  }
  return insert->run().ok() && target.changes() == 1;
}

// Rows as long as they come, from one end. The last sequence that was reached is returned through `reached`.
std::size_t copy_from_one_end(Database& source, Database& target, const char* order, std::int64_t& reached) {
  auto rows = source.prepare(fmt::format("SELECT {} FROM jobs NOT INDEXED ORDER BY sequence {}", kColumns, order));
  if (!rows.ok()) return 0;
  std::size_t out = 0;
  for (auto more = rows->step(); more.ok() && *more; more = rows->step()) {
    reached = rows->integer(0);
    out += copy_row(*rows, target) ? 1 : 0;
  }
  return out;
}

std::size_t copy_single_rows(Database& source, Database& target, std::int64_t from, std::int64_t to) {
  constexpr std::int64_t kMostTries = 100000;
  std::size_t out = 0;
  for (std::int64_t sequence = from; sequence < to && sequence - from < kMostTries; ++sequence) {
    auto row = source.prepare(fmt::format("SELECT {} FROM jobs NOT INDEXED WHERE sequence = ?", kColumns));
    if (!row.ok()) return out;
    row->bind(sequence);
    const auto there = row->step();
    if (there.ok() && *there) out += copy_row(*row, target) ? 1 : 0;
  }
  return out;
}

void copy_meta(Database& source, Database& target) {
  auto rows = source.prepare("SELECT name, value FROM meta");
  if (!rows.ok()) return;
  for (auto more = rows->step(); more.ok() && *more; more = rows->step())
    if (auto insert = target.prepare("INSERT OR REPLACE INTO meta VALUES (?,?)"); insert.ok())
      (void)insert->bind(rows->text(0)).bind(rows->integer(1)).run();
}

}  // namespace

Result<void> migrate(Database& database) {
  std::int64_t version = 0;
  {
    TRITIUM_TRY_ASSIGN(auto row, database.prepare("PRAGMA user_version"));
    TRITIUM_TRY(row.step());
    version = row.integer(0);
  }
  if (version > kSchemaVersion)
    return Error{ErrorCode::failure,
                 fmt::format("the job database is of a newer version of Tritium: format {}, this one knows {}", version, kSchemaVersion),
                 "", "use that version, or another data folder"};
  for (; version < kSchemaVersion; ++version) {
    TRITIUM_TRY_ASSIGN(Transaction all, Transaction::begin(database));
    TRITIUM_TRY(database.execute(kMigrations[static_cast<std::size_t>(version)]));
    TRITIUM_TRY(database.execute(fmt::format("PRAGMA user_version = {}", version + 1)));
    TRITIUM_TRY(all.commit());
  }
  return {};
}

Result<bool> is_sound(Database& database) {
  TRITIUM_TRY_ASSIGN(auto row, database.prepare("PRAGMA quick_check(1)"));
  TRITIUM_TRY_ASSIGN(const bool there, row.step());
  return there && row.text(0) == "ok";
}

std::size_t rescue(const std::filesystem::path& damaged, Database& target) {
  const auto source = Database::open(damaged, /*only_read=*/false);  // its log is read too
  if (!source.ok()) return 0;
  (void)(*source)->execute("PRAGMA writable_schema = ON");  // reads on in a file that was cut off
  (void)target.execute("BEGIN");
  std::int64_t low = 0, high = 0;
  std::size_t out = copy_from_one_end(**source, target, "ASC", low);
  out += copy_from_one_end(**source, target, "DESC", high);
  out += copy_single_rows(**source, target, low + 1, high);
  copy_meta(**source, target);
  (void)target.execute("COMMIT");
  return out;
}

}  // namespace tritium::sqlite
