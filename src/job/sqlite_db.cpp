#include "job/sqlite_db.h"

#include "base/try.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <utility>

namespace tritium::sqlite {
namespace {

constexpr int kBusyMilliseconds = 5000;

bool means_damage(int code) { return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB; }

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)), bound_(other.bound_) {}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Statement& Statement::bind(std::int64_t value) {
  sqlite3_bind_int64(statement_, ++bound_, value);
  return *this;
}
Statement& Statement::bind(double value) {
  sqlite3_bind_double(statement_, ++bound_, value);
  return *this;
}
Statement& Statement::bind(std::string_view value) {
  sqlite3_bind_text64(statement_, ++bound_, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->error(code);
}

Result<void> Statement::run() {
  for (;;) {
    TRITIUM_TRY_ASSIGN(const bool more, step());
    if (!more) return {};
  }
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }
std::string Statement::text(int column) const {
  const unsigned char* bytes = sqlite3_column_text(statement_, column);
  return bytes == nullptr
             ? ""
             : std::string(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

Result<std::unique_ptr<Database>> Database::open(const std::filesystem::path& file, bool only_read) {
  sqlite3* handle = nullptr;
  const int flags = only_read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(file.c_str(), &handle, flags | SQLITE_OPEN_FULLMUTEX, nullptr);
  std::unique_ptr<Database> out(new Database(handle, file));
  if (code != SQLITE_OK) return out->error(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  return out;
}

Database::~Database() {
  for (const auto& [sql, statement] : prepared_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

Result<Statement> Database::prepare(const std::string& sql) {
  sqlite3_stmt*& statement = prepared_[sql];
  if (statement == nullptr)
    if (const int code = sqlite3_prepare_v2(handle_, sql.c_str(), static_cast<int>(sql.size()) + 1, &statement, nullptr); code != SQLITE_OK)
      return error(code);
  return Statement(*this, statement);
}

Result<void> Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code);
  return {};
}

int Database::changes() const { return sqlite3_changes(handle_); }
std::int64_t Database::last_row() const { return sqlite3_last_insert_rowid(handle_); }

Error Database::error(int code) {
  damaged_ = means_damage(code);
  const std::string reason = handle_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle_);
  std::string hint = "the service goes on when the cause is gone";
  switch (code & 0xff) {
    case SQLITE_FULL:
      hint = "free some space on its disk; " + hint;
      break;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      hint = "make its folder writable; " + hint;
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      hint = "restart the service: it moves the damaged file aside and saves what can be read";
      break;
    default:
      break;
  }
  return Error{ErrorCode::busy, fmt::format("the job database '{}' cannot be used: {}", file_.string(), reason), "", std::move(hint)};
}

Result<Transaction> Transaction::begin(Database& database) {
  TRITIUM_TRY(database.execute("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_ != nullptr) (void)database_->execute("ROLLBACK");
}

Result<void> Transaction::commit() {
  TRITIUM_TRY(database_->execute("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace tritium::sqlite
