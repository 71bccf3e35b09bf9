#include "fetch/folder_lock.h"

#include "base/files.h"
#include "base/try.h"
#include "fetch/io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <thread>

namespace tritium::fetch {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds kPoll{100};

// Its holder removes the file before it lets go: the one that was locked may no longer be the one of that name.
bool still_named(int fd, const fs::path& path) {
  struct stat ours {
  }, named{};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

std::string holder(const fs::path& path) {
  const auto text = read_file(path, 64);
  const std::string pid = text.ok() ? text->substr(0, text->find_first_not_of("0123456789")) : "";
  return pid.empty() ? "another process" : "process " + pid;
}

}  // namespace

Result<FolderLock> FolderLock::take(const fs::path& folder, bool wait, const std::function<void(const std::string&)>& notice,
                                    const CancelToken* cancel) {
  const fs::path path = folder / ".tritium-fetch.lock";
  for (bool told = false;;) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return io_error("open", path, errno);
    FolderLock lock(path, fd);
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
      if (!still_named(fd, path)) {
        ::close(std::exchange(lock.fd_, -1));
        continue;
      }
      if (::ftruncate(fd, 0) == 0) (void)write_all(fd, path, fmt::format("{}\n", ::getpid()));  // only to be told to others
      return lock;
    }
    const int code = errno;
    ::close(std::exchange(lock.fd_, -1));
    if (code != EWOULDBLOCK && code != EINTR) return io_error("lock", path, code);
    if (!wait)
      return Error{ErrorCode::failure, fmt::format("{} is fetching into '{}'", holder(path), folder.string()), "",
                   "wait for it with --wait, or choose another folder with -o DIR"};
    if (!std::exchange(told, true)) notice(fmt::format("waiting for {}, which is fetching into '{}'", holder(path), folder.string()));
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("the wait for another fetch"));
    std::this_thread::sleep_for(kPoll);
  }
}

FolderLock::~FolderLock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());
  ::close(fd_);
}

}  // namespace tritium::fetch
