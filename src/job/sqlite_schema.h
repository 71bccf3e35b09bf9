// Tables of the SQLite store and their versions. Private to it.
#pragma once

#include "job/sqlite_db.h"

namespace tritium::sqlite {

// Of the file format, in user_version. A change of the tables is one more entry in the list of migrations.
constexpr int kSchemaVersion = 1;

// Error (failure): the file is of a newer program.
Result<void> migrate(Database& database);

// The database is sound: quick_check says ok. False or an error: it is not.
Result<bool> is_sound(Database& database);

// Copies every job that can be read from a damaged file into a new one; returns how many.
std::size_t rescue(const std::filesystem::path& damaged, Database& target);

}  // namespace tritium::sqlite
