#include "base/file_mapping.h"

#include "base/system.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tritium {
namespace {

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;  // Linux 5.14
#endif

}  // namespace

Result<FileMapping> FileMapping::create(int fd, const std::filesystem::path& path, std::uint64_t bytes) {
  void* at = bytes == 0 ? nullptr : mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return Error{ErrorCode::failure, fmt::format("cannot map '{}': {}", path.string(), std::strerror(errno)), "", ""};
  return FileMapping(path, static_cast<const std::uint8_t*>(at), bytes);
}

FileMapping::FileMapping(FileMapping&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

FileMapping::~FileMapping() {
  if (data_ != nullptr) munmap(const_cast<std::uint8_t*>(data_), bytes_);
}

Result<void> FileMapping::populate(std::uint64_t offset, std::uint64_t bytes) const {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page, end = std::min(bytes_, offset + bytes);
  if (begin >= end) return {};
  int status;
  do status = madvise(const_cast<std::uint8_t*>(data_) + begin, end - begin, MADV_POPULATE_READ);
  while (status != 0 && errno == EINTR);
  if (status == 0 || errno == EINVAL || errno == ENOSYS) return {};  // an older kernel reads when it is needed
  return Error{ErrorCode::model, fmt::format("cannot read '{}' at {}: {}", path_.string(), offset, std::strerror(errno)), "",
               "the disk reports an error, or the file was shortened: check both"};
}

Result<void> FileMapping::pin(std::uint64_t offset, std::uint64_t bytes) const {
  if (mlock(data_ + offset, bytes) == 0) return {};
  const int reason = errno;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return Error{ErrorCode::does_not_fit,
               fmt::format("'{}' cannot be pinned in memory: {}; at most {} may be", path_.string(), std::strerror(reason),
                           limit.rlim_cur == RLIM_INFINITY ? "any amount" : format_bytes(limit.rlim_cur)),
               "pin", "raise the limit (ulimit -l), or leave --pin away"};
}

}  // namespace tritium
