#include "fetch/io.h"

#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>

namespace tritium::fetch {
namespace fs = std::filesystem;

Error io_error(const char* action, const fs::path& path, int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return Error{full ? ErrorCode::does_not_fit : ErrorCode::failure,
               fmt::format("cannot {} '{}': {}", action, path.string(), system_message(code)), "",
               full ? "what was fetched is kept: free some space and run the same command again" : ""};
}

Result<void> write_all(int fd, const fs::path& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("write", path, errno);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> write_at(int fd, const fs::path& path, std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<void> read_at(int fd, const fs::path& path, std::uint64_t offset, std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("read", path, errno);
    if (n == 0) return Error{ErrorCode::failure, fmt::format("'{}' ends at byte {}", path.string(), offset), "", ""};
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

void sync_folder(const fs::path& folder) {
  if (const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

}  // namespace tritium::fetch
