// What a process that ended in the middle of a request leaves behind, for the process that looks after it.
#pragma once

#include <tritium/request.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tritium {

// The files that a request writes, as they are before it begins.
class OutputState {
 public:
  explicit OutputState(const OutputOptions& output);

  // Removes the temporary files of dead writers. `was_writing`: the results were being given their names when it ended; those that got one
  // go too, since only all of them together are a result. Before that stage nothing of this request has a final name.
  void remove_leftovers(bool was_writing) const;

 private:
  struct Identity {
    std::uint64_t device = 0, inode = 0;
    std::int64_t seconds = 0, nanoseconds = 0;  // of the last change
    bool operator==(const Identity&) const = default;
  };
  struct File {
    std::filesystem::path path;
    std::optional<Identity> before;
  };
  static std::optional<Identity> identity(const std::filesystem::path& path);

  std::vector<File> files_;
  std::filesystem::path frames_dir_;
};

}  // namespace tritium
