// Jobs in one file of SQLite: write-ahead log, one writer, readers that do not wait for it.
#pragma once

#include "job/store.h"

#include <filesystem>
#include <memory>

namespace tritium {

// What was found when the file was opened.
struct StoreHealth {
  std::filesystem::path damaged;  // where a damaged file was moved to; empty: it was sound, or new
  std::size_t saved = 0;          // jobs that could be read from it
  bool made = false;              // there was no file
};

// Opens or makes the file, checks its integrity and brings older versions up to date. Jobs that were running are queued again: whoever ran
// them is gone, since the caller holds the folder alone. A damaged file is moved aside as "NAME.damaged-TIME", never deleted, and all jobs
// that can be read from it are taken over.
// Errors: failure (names file and reason; a file of a newer version), busy (not writable, disk full).
Result<std::unique_ptr<JobStore>> open_sqlite_store(const std::filesystem::path& file, const JobClock& clock,
                                                    StoreHealth* health = nullptr);

}  // namespace tritium
