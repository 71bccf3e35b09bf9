// Small file helpers with precise errors, and files that appear under their final name only when complete.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tritium {

// The whole file as bytes. Error: names the path and the system's reason; refuses files above `limit` bytes.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit = 256u << 20);

// What may be thrown away and made again: "$XDG_CACHE_HOME/tritium", or the same below ~/.cache; empty if there is neither.
std::filesystem::path cache_folder();

// A file that is written under a temporary name in the target's own folder and gets its final name in commit().
// Destroyed without commit, the temporary file is removed, so an unfinished file never carries the final name. What a killed process
// left behind is removed when the same target is written again.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& target);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // For writers that open the file by name themselves (the extension of the target is kept).
  [[nodiscard]] const std::filesystem::path& temporary_path() const { return temporary_; }
  [[nodiscard]] const std::filesystem::path& target() const { return target_; }

  Result<void> write(std::span<const std::uint8_t> bytes);
  Result<void> write(std::string_view text);

  // Flushes to disk and renames to the target (replacing an existing file) or to `other_name` in the same folder.
  Result<void> commit();
  Result<void> commit_as(const std::filesystem::path& other_name);

 private:
  AtomicFile(std::filesystem::path target, std::filesystem::path temporary, int fd);
  std::filesystem::path target_, temporary_;
  int fd_ = -1;
};

// Removes the temporary files for this target whose writers are dead; those of running writers are left alone. `stem_begins`: also of every
// other target in the folder whose name begins with the target's stem and has its extension.
void remove_abandoned_files(const std::filesystem::path& target, bool stem_begins = false);

// Removes the temporary files of every AtomicFile of this process. Only for ending the process at once: safe in a signal handler.
void remove_temporary_files() noexcept;

Result<void> write_file_atomically(const std::filesystem::path& target, std::string_view content);

// The message of errno value `code`.
std::string system_message(int code);

}  // namespace tritium
