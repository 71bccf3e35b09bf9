#include "job/sqlite_rows.h"

#include "base/try.h"
#include "job/stored_job.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::sqlite {
namespace {

// Of the columns of kRow.
Result<Row> read_row(const Statement& row) {
  Row out;
  TRITIUM_TRY_ASSIGN(out.job, decode_job(row.text(0)));
  out.job.sequence = row.integer(1);
  out.job.state = static_cast<JobState>(row.integer(2));
  out.job.cancel_requested = row.integer(3) != 0;
  out.job.attempt = static_cast<int>(row.integer(4));
  out.failures = static_cast<int>(row.integer(5));
  out.crashes = static_cast<int>(row.integer(6));
  out.fingerprint = row.text(7);
  return out;
}

}  // namespace

Result<std::optional<Row>> read_one(Statement& statement) {
  TRITIUM_TRY_ASSIGN(const bool there, statement.step());
  if (!there) return std::optional<Row>();
  TRITIUM_TRY_ASSIGN(Row out, read_row(statement));
  return std::optional<Row>(std::move(out));
}

Result<std::optional<Row>> find_row(Database& database, const std::string& id) {
  TRITIUM_TRY_ASSIGN(auto statement, database.prepare(std::string(kRow) + "WHERE id = ?"));
  return read_one(statement.bind(id));
}

Result<std::optional<Job>> Questions::find(const std::string& id) {
  const std::lock_guard lock(reading_);
  TRITIUM_TRY_ASSIGN(auto row, find_row(*reader_, id));
  return row ? std::optional(std::move(row->job)) : std::nullopt;
}

Result<std::optional<JobStore::Keyed>> Questions::find_key(const std::string& owner, const std::string& key) {
  const std::lock_guard lock(reading_);
  TRITIUM_TRY_ASSIGN(auto statement,
                     reader_->prepare(std::string(kRow) + "WHERE owner = ? AND idempotency_key = ? AND idempotency_key != ''"));
  TRITIUM_TRY_ASSIGN(auto row, read_one(statement.bind(owner).bind(key)));
  if (!row) return std::optional<Keyed>();
  return std::optional<Keyed>(Keyed{std::move(row->job), std::move(row->fingerprint)});
}

Result<JobStore::Listed> Questions::list(const JobQuery& query) {
  const std::lock_guard lock(reading_);
  std::int64_t after = 0;
  if (!query.after.empty()) {
    TRITIUM_TRY_ASSIGN(const auto last, find_row(*reader_, query.after));
    if (!last || last->job.spec.owner != query.owner)
      return Error{ErrorCode::not_found, fmt::format("there is no job '{}'", query.after), "after", "begin with the first page again"};
    after = last->job.sequence;
  }
  std::string sql = "SELECT id FROM jobs WHERE owner = ?";
  if (!query.dialect.empty()) sql += " AND dialect = ?";
  if (!query.states.empty()) {
    std::string states;
    for (const JobState state : query.states) states += fmt::format("{}{}", states.empty() ? "" : ",", static_cast<int>(state));
    sql += fmt::format(" AND state IN ({})", states);
  }
  if (after > 0) sql += query.oldest_first ? " AND sequence > ?" : " AND sequence < ?";
  sql += query.oldest_first ? " ORDER BY sequence LIMIT ?" : " ORDER BY sequence DESC LIMIT ?";
  TRITIUM_TRY_ASSIGN(auto statement, reader_->prepare(sql));
  statement.bind(query.owner);
  if (!query.dialect.empty()) statement.bind(query.dialect);
  if (after > 0) statement.bind(after);
  const std::size_t limit = std::clamp<std::size_t>(query.limit, 1, 1000);
  statement.bind(static_cast<std::uint64_t>(limit + 1));
  Listed out;
  for (;;) {
    TRITIUM_TRY_ASSIGN(const bool more, statement.step());
    if (!more) return out;
    if (out.ids.size() == limit) {
      out.has_more = true;
      return out;
    }
    out.ids.push_back(statement.text(0));
  }
}

Result<std::vector<QueuedJob>> Questions::queue() {
  const std::lock_guard lock(reading_);
  TRITIUM_TRY_ASSIGN(auto statement,
                     reader_->prepare("SELECT id, sequence, priority FROM jobs WHERE state = 0 ORDER BY priority DESC, sequence"));
  std::vector<QueuedJob> out;
  for (;;) {
    TRITIUM_TRY_ASSIGN(const bool more, statement.step());
    if (!more) return out;
    out.push_back({statement.text(0), statement.integer(1), static_cast<int>(statement.integer(2))});
  }
}

Result<std::vector<FinishedJob>> Questions::finished() {
  const std::lock_guard lock(reading_);
  TRITIUM_TRY_ASSIGN(auto statement,
                     reader_->prepare("SELECT id, finished_tick, bytes FROM jobs WHERE state >= 2 ORDER BY finished_tick, sequence"));
  std::vector<FinishedJob> out;
  const std::int64_t now = tick();
  for (;;) {
    TRITIUM_TRY_ASSIGN(const bool more, statement.step());
    if (!more) return out;
    out.push_back({statement.text(0), static_cast<double>(now - statement.integer(1)) / kMillisPerDay,
                   static_cast<std::uint64_t>(statement.integer(2))});
  }
}

Result<std::vector<std::string>> Questions::ids() {
  const std::lock_guard lock(reading_);
  TRITIUM_TRY_ASSIGN(auto statement, reader_->prepare("SELECT id FROM jobs"));
  std::vector<std::string> out;
  for (;;) {
    TRITIUM_TRY_ASSIGN(const bool more, statement.step());
    if (!more) return out;
    out.push_back(statement.text(0));
  }
}

}  // namespace tritium::sqlite
