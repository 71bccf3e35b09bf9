// A thin layer over SQLite: statements that are prepared once, values in order, errors that say what to do. Private to the SQLite store.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace tritium::sqlite {

class Database;

// A prepared statement in use; goes back to its database, reset, when it is destroyed.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  ~Statement();

  // The next parameter, from the first on.
  Statement& bind(std::int64_t value);
  Statement& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(int value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(double value);
  Statement& bind(std::string_view value);

  // True: a row is there; false: no further row.
  Result<bool> step();
  Result<void> run();

  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::string text(int column) const;

 private:
  friend class Database;
  Statement(Database& database, sqlite3_stmt* statement) : database_(&database), statement_(statement) {}
  Database* database_;
  sqlite3_stmt* statement_;
  int bound_ = 0;
};

class Database {
 public:
  // Error (failure): names the file; damaged() of it tells whether the content is to blame.
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& file, bool only_read);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Result<Statement> prepare(const std::string& sql);
  // One or several statements without parameters or results.
  Result<void> execute(const std::string& sql);
  [[nodiscard]] int changes() const;
  [[nodiscard]] std::int64_t last_row() const;
  // Of the last error: the file is damaged, not the disk full or the like.
  [[nodiscard]] bool damaged() const { return damaged_; }

 private:
  friend class Statement;
  Database(sqlite3* handle, std::filesystem::path file) : handle_(handle), file_(std::move(file)) {}
  Error error(int code);

  sqlite3* handle_;
  std::filesystem::path file_;
  std::map<std::string, sqlite3_stmt*> prepared_;
  bool damaged_ = false;
};

// All changes or none: undone unless commit() was called.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  Transaction(const Transaction&) = delete;
  ~Transaction();
  Result<void> commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;
};

}  // namespace tritium::sqlite
