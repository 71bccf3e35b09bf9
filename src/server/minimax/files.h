// Files that clients upload to be named later as mm_file://ID. Each owner sees only its own.
#pragma once

#include "server/http/message.h"

#include <cstdint>
#include <mutex>

namespace tritium::server::minimax {

struct StoredFile {
  std::int64_t id = 0;
  std::string name, purpose;
  std::uint64_t bytes = 0;
  std::int64_t created = 0;    // seconds since 1970
  std::filesystem::path path;  // its content
};

class Files {
 public:
  Files(std::filesystem::path folder, std::uint64_t max_bytes, double keep_days);

  // The file is copied. Errors: usage (name), busy (more than this owner may have).
  Result<StoredFile> store(const std::string& owner, const http::FormField& file, const std::string& purpose, std::int64_t now);
  // Error: not_found.
  [[nodiscard]] Result<StoredFile> find(const std::string& owner, const std::string& id) const;
  [[nodiscard]] std::vector<StoredFile> list(const std::string& owner) const;  // newest first
  Result<void> remove(const std::string& owner, const std::string& id);

 private:
  [[nodiscard]] std::filesystem::path folder_of(const std::string& owner) const;
  [[nodiscard]] std::vector<StoredFile> read_all(const std::filesystem::path& folder) const;

  std::filesystem::path folder_;
  std::uint64_t max_bytes_;
  double keep_days_;
  mutable std::mutex mutex_;
};

}  // namespace tritium::server::minimax
