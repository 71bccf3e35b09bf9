// One fetch at a time into a folder.
#pragma once

#include "base/cancel.h"

#include <filesystem>
#include <functional>
#include <string>

namespace tritium::fetch {

class FolderLock {
 public:
  // Takes the lock file in `folder`. When another process has it: waits for its end if `wait` (after telling `notice` once), otherwise
  // an error that names the process. A process that died holds nothing.
  static Result<FolderLock> take(const std::filesystem::path& folder, bool wait, const std::function<void(const std::string&)>& notice,
                                 const CancelToken* cancel);
  FolderLock(FolderLock&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();  // removes the file

 private:
  FolderLock(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace tritium::fetch
