// Reading speed of a disk, past the page cache.
#include "base/files.h"
#include "base/system.h"
#include "base/try.h"
#include "doctor/speeds.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <memory>

namespace tritium::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = 8u << 20, kAlignment = 4096;
constexpr std::uint64_t kMost = 1u << 30, kTemporaryBytes = 128u << 20;
constexpr double kSeconds = 2;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

// Bytes per second from the beginning of the file; nothing if it cannot be read like this.
std::optional<double> timed_read(int fd) {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  const std::unique_ptr<void, Free> piece(std::aligned_alloc(kAlignment, kPiece));
  if (piece == nullptr) return std::nullopt;
  const double start = monotonic_seconds();
  std::uint64_t done = 0;
  double seconds = 0;
  while (done < kMost && seconds < kSeconds) {
    const ssize_t got = ::pread(fd, piece.get(), kPiece, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    done += static_cast<std::uint64_t>(got);
    seconds = monotonic_seconds() - start;
    if (got < static_cast<ssize_t>(kPiece)) break;  // the end of the file
  }
  if (done == 0 || seconds <= 0) return std::nullopt;
  return static_cast<double>(done) / seconds;
}

Result<void> write_all(int fd) {
  std::vector<std::uint8_t> piece(kPiece);
  for (std::size_t i = 0; i < piece.size(); ++i)
    piece[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);  // nothing that compresses well
  for (std::uint64_t done = 0; done < kTemporaryBytes;) {
    const ssize_t put = ::write(fd, piece.data(), piece.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return Error{ErrorCode::failure, "a temporary file could not be written: " + system_message(errno), "", ""};
    done += static_cast<std::uint64_t>(put);
  }
  if (::fsync(fd) != 0) return Error{ErrorCode::failure, "a temporary file could not be written: " + system_message(errno), "", ""};
  return {};
}

}  // namespace

Result<DiskSpeed> disk_speed(const fs::path& file) {
  {
    const Descriptor direct(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    if (direct.get() >= 0)
      if (const auto speed = timed_read(direct.get()))
        return DiskSpeed{*speed, fmt::format("'{}', past the page cache (O_DIRECT)", file.string())};
  }
  const Descriptor plain(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (plain.get() < 0) return Error{ErrorCode::failure, fmt::format("cannot read '{}': {}", file.string(), system_message(errno)), "", ""};
  ::posix_fadvise(plain.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (const auto speed = timed_read(plain.get()))
    return DiskSpeed{*speed, fmt::format("'{}', its pages dropped from the page cache before", file.string())};
  return Error{ErrorCode::failure, fmt::format("cannot read '{}'", file.string()), "", ""};
}

Result<DiskSpeed> disk_speed_of_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  const fs::space_info space = fs::space(folder, code);
  if (code || space.available < 2 * kTemporaryBytes)
    return Error{ErrorCode::failure, fmt::format("there is no room for a temporary file in '{}'", folder.string()), "", ""};
  std::string name = (folder / "doctor.XXXXXX").string();
  const Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.get() < 0)
    return Error{ErrorCode::failure, fmt::format("cannot write to '{}': {}", folder.string(), system_message(errno)), "", ""};
  const Result<void> written = write_all(file.get());
  Result<DiskSpeed> speed = written.ok() ? disk_speed(name) : Result<DiskSpeed>(written.error());
  ::unlink(name.c_str());
  if (speed.ok()) speed->how = "a temporary file of 128 MiB" + speed->how.substr(speed->how.rfind("',") + 1);
  return speed;
}

}  // namespace tritium::doctor
