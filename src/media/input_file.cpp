#include "media/input_file.h"

#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <utility>

namespace tritium {
namespace fs = std::filesystem;

Error unreadable(const fs::path& path, const std::string& reason) {
  return Error{ErrorCode::failure, fmt::format("cannot read '{}': {}", path.string(), reason), "", ""};
}

Error out_of_memory(const fs::path& path) {
  return Error{ErrorCode::does_not_fit, fmt::format("'{}' does not fit into memory when decoded", path.string()), "",
               "use a shorter or smaller one"};
}

Error as_request_error(Error error) {
  if (error.code == ErrorCode::failure) error.code = ErrorCode::usage;
  return error;
}

InputFile::InputFile(fs::path path, int descriptor, std::uint64_t bytes) : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<InputFile> InputFile::open(const fs::path& path) {
  if (path.native().find('\0') != std::string::npos) return unreadable(path.c_str(), "its name holds a zero byte");
  // O_NONBLOCK: opening a named pipe would wait for its other end.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  // A socket cannot be opened at all.
  if (descriptor < 0) return unreadable(path, errno == ENXIO ? "not a regular file" : system_message(errno));
  InputFile file(path, descriptor, 0);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return unreadable(path, system_message(errno));
  if (S_ISDIR(info.st_mode)) return unreadable(path, "it is a folder");
  if (!S_ISREG(info.st_mode)) return unreadable(path, "not a regular file");
  if (info.st_size <= 0) return unreadable(path, "the file is empty");
  file.bytes_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Result<std::string> InputFile::read_all(std::uint64_t limit) const {
  if (bytes_ > limit) return unreadable(path_, fmt::format("it has {} bytes, at most {} are taken", bytes_, limit));
  std::string out(static_cast<std::size_t>(bytes_), '\0');
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unreadable(path_, system_message(errno));
    if (n == 0) return unreadable(path_, "it became shorter while it was read");
    done += static_cast<std::size_t>(n);
  }
  return out;
}

}  // namespace tritium
