#include "base/files.h"

#include "base/try.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace tritium {
namespace fs = std::filesystem;

std::string system_message(int code) { return std::error_code(code, std::generic_category()).message(); }

namespace {

Error file_error(const char* action, const fs::path& path, int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return Error{full ? ErrorCode::does_not_fit : ErrorCode::failure,
               std::string("cannot ") + action + " '" + path.string() + "': " + system_message(code), "",
               full ? "free some space or choose another folder" : ""};
}

}  // namespace

Result<std::string> read_file(const fs::path& path, std::uint64_t limit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return file_error("open", path, errno);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    const int code = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
    ::close(fd);
    return file_error("read", path, code);
  }
  if (static_cast<std::uint64_t>(info.st_size) > limit) {
    ::close(fd);
    return Error{ErrorCode::failure,
                 "'" + path.string() + "' has " + std::to_string(info.st_size) + " bytes, more than the limit of " + std::to_string(limit),
                 "", ""};
  }
  std::string out(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::read(fd, out.data() + done, out.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int code = errno;
      ::close(fd);
      return file_error("read", path, code);
    }
    if (n == 0) break;  // the file shrank while we read it: what is there is what we return
    done += static_cast<std::size_t>(n);
  }
  ::close(fd);
  out.resize(done);
  return out;
}

namespace {

// Names of the temporary files that exist now, where a signal handler can read them: fixed memory, never freed. A file beyond the
// last slot, or with a longer name, is only not removed by such an exit.
struct Slot {
  std::atomic<bool> taken{false}, ready{false};
  std::array<char, 4096> path{};
};
std::array<Slot, 16> slots;

void remember(const std::string& path) {
  if (path.size() >= slots[0].path.size()) return;
  for (Slot& slot : slots) {
    if (slot.taken.exchange(true)) continue;
    std::copy(path.c_str(), path.c_str() + path.size() + 1, slot.path.begin());
    slot.ready = true;
    return;
  }
}

void forget(const std::string& path) {
  for (Slot& slot : slots) {
    if (!slot.ready || path != slot.path.data()) continue;
    slot.ready = false;
    slot.taken = false;
    return;
  }
}

}  // namespace

void remove_temporary_files() noexcept {
  for (Slot& slot : slots)
    if (slot.ready) ::unlink(slot.path.data());
}

fs::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && fs::path(cache).is_absolute()) return fs::path(cache) / "tritium";
  const char* home = std::getenv("HOME");
  if (home != nullptr && fs::path(home).is_absolute()) return fs::path(home) / ".cache" / "tritium";
  return {};
}

AtomicFile::AtomicFile(fs::path target, fs::path temporary, int fd)
    : target_(std::move(target)), temporary_(std::move(temporary)), fd_(fd) {
  remember(temporary_.native());
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : target_(std::move(other.target_)), temporary_(std::move(other.temporary_)), fd_(std::exchange(other.fd_, -1)) {
  other.temporary_.clear();
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
    forget(temporary_.native());
  }
  if (fd_ >= 0) ::close(fd_);
}

namespace {

// Between the name of the target and the six random characters; tells our files from others that are hidden.
constexpr const char* kMark = ".tritium-";

constexpr std::size_t kRandomCharacters = 6;

// Of the process. It can only be read by changing it, so that is done once: two threads at it could leave it changed.
mode_t creation_mask() {
  static const mode_t mask = [] {
    const mode_t before = ::umask(0);
    ::umask(before);
    return before;
  }();
  return mask;
}

}  // namespace

// The files of writers that were killed are no longer locked.
void remove_abandoned_files(const fs::path& target, bool stem_begins) {
  const std::string prefix = "." + target.stem().string(), suffix = target.extension().string();
  const std::string_view mark = kMark;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(target.parent_path().empty() ? "." : target.parent_path(), code)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    const std::size_t tail = mark.size() + kRandomCharacters + suffix.size();
    if (name.size() < prefix.size() + tail || (!stem_begins && name.size() != prefix.size() + tail)) continue;
    if (name.compare(name.size() - tail, mark.size(), mark) != 0) continue;
    const int fd = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    ::close(fd);
  }
}

Result<AtomicFile> AtomicFile::create(const fs::path& target) {
  std::error_code ignored;
  if (fs::is_directory(target, ignored)) return file_error("write", target, EISDIR);
  remove_abandoned_files(target);
  std::string name;
  int fd = -1;
  struct stat info {};
  do {  // another writer of the same target may have taken the new file for an abandoned one before it was locked
    if (fd >= 0) ::close(fd);
    // ".name.tritium-XXXXXX.ext": hidden, in the same folder (rename must not cross file systems), extension kept for writers that
    // look at it.
    name = (target.parent_path() / ("." + target.stem().string() + kMark + "XXXXXX" + target.extension().string())).string();
    fd = ::mkostemps(name.data(), static_cast<int>(target.extension().string().size()), O_CLOEXEC);
    if (fd < 0) return file_error("create a file beside", target, errno);
    ::flock(fd, LOCK_EX | LOCK_NB);
  } while (::fstat(fd, &info) == 0 && info.st_nlink == 0);
  ::fchmod(fd, 0666 & ~creation_mask());
  return AtomicFile(target, name, fd);
}

Result<void> AtomicFile::write(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error("write", target_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> AtomicFile::write(std::string_view text) {
  return write(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

Result<void> AtomicFile::commit() { return commit_as(target_); }

Result<void> AtomicFile::commit_as(const fs::path& other_name) {
  // The writer may have used its own descriptor: syncing ours flushes the same file.
  if (::fsync(fd_) != 0) return file_error("flush", target_, errno);
  if (::rename(temporary_.c_str(), other_name.c_str()) != 0) return file_error("rename to", other_name, errno);
  forget(temporary_.native());
  temporary_.clear();
  const fs::path folder = other_name.parent_path().empty() ? fs::path(".") : other_name.parent_path();
  if (const int dir = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
  return {};
}

Result<void> write_file_atomically(const fs::path& target, std::string_view content) {
  TRITIUM_TRY_ASSIGN(AtomicFile file, AtomicFile::create(target));
  TRITIUM_TRY(file.write(content));
  return file.commit();
}

}  // namespace tritium
