// A file mapped into memory for reading.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>

namespace tritium {

class FileMapping {
 public:
  // Maps the first `bytes` of an open file; the descriptor may be closed afterwards. Nothing is read yet. Error code failure.
  static Result<FileMapping> create(int fd, const std::filesystem::path& path, std::uint64_t bytes);
  FileMapping(FileMapping&& other) noexcept;
  FileMapping& operator=(FileMapping&&) = delete;
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;
  ~FileMapping();

  [[nodiscard]] const std::uint8_t* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // Reads [offset, offset + bytes) into memory, so that a file that cannot be read is an error here and not a signal later. Thread safe.
  // Error code model names the file.
  Result<void> populate(std::uint64_t offset, std::uint64_t bytes) const;
  // Keeps [offset, offset + bytes) in memory as long as the mapping lives. Error does_not_fit names the limit (RLIMIT_MEMLOCK).
  Result<void> pin(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  FileMapping(const std::filesystem::path& path, const std::uint8_t* data, std::uint64_t bytes) : path_(path), data_(data), bytes_(bytes) {}
  std::filesystem::path path_;
  const std::uint8_t* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace tritium
