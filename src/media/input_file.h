// Opening files that a user hands in: only regular files, never waiting for one, never another file than the named one.
#pragma once

#include "base/cancel.h"

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace tritium {

// An open regular file that is not empty. A folder, device, pipe or socket is refused without blocking; the check is made on the
// opened file itself, so that nothing can be put in its place in between.
class InputFile {
 public:
  static Result<InputFile> open(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  // when it was opened

  // All of it, from the start. Errors: failure when it is above `limit` bytes or the system reports one.
  [[nodiscard]] Result<std::string> read_all(std::uint64_t limit) const;

 private:
  InputFile(std::filesystem::path path, int descriptor, std::uint64_t bytes);
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

// "cannot read '<path>': <reason>", code failure.
Error unreadable(const std::filesystem::path& path, const std::string& reason);

// "'<path>' does not fit into memory when decoded", code does_not_fit.
Error out_of_memory(const std::filesystem::path& path);

// What is wrong with a file that was handed in is wrong with the request: failure becomes usage; lack of memory and a cancellation stay.
Error as_request_error(Error error);

}  // namespace tritium
