// One weight file, whatever its container: its header, checked, and its tensors' bytes on demand.
#pragma once

#include "base/file_mapping.h"
#include "weights/tensor_info.h"

#include <array>
#include <filesystem>
#include <memory>

namespace tritium {

class TensorFile {
 public:
  // Reads and checks the header only. The content decides what the file is, not its name. Errors (code model) name the file and, in
  // `field`, the tensor or key; truncated downloads, Git LFS pointers, pickles and other common strangers are recognised.
  static Result<TensorFile> open(const std::filesystem::path& path);
  TensorFile(TensorFile&& other) noexcept;
  TensorFile& operator=(TensorFile&&) = delete;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;
  ~TensorFile();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] const FileHeader& header() const { return header_; }
  [[nodiscard]] Container container() const { return header_.container; }

  // Copies the tensor's raw bytes. Precondition: out.size() == tensor.bytes and the tensor belongs to this file.
  Result<void> read(const TensorInfo& tensor, std::span<std::uint8_t> out) const;
  // The bytes [first, first + out.size()) of the tensor. Precondition: they lie within it.
  Result<void> read_range(const TensorInfo& tensor, std::uint64_t first, std::span<std::uint8_t> out) const;
  // The same for bytes that will not be read again soon: from the disk straight into `out`, past the system's own memory, where the
  // address of `out` and the place in the file agree modulo kDirectAlignment and the file system can do it. Costs an eighth of the
  // processor time of read_range() (measured for pages that were not in memory).
  Result<void> read_direct(const TensorInfo& tensor, std::uint64_t first, std::span<std::uint8_t> out) const;
  static constexpr std::uint64_t kDirectAlignment = 4096;

  // Error code model if the file's content, or the file itself, was changed since it was opened.
  Result<void> check_unchanged() const;

  // Lets the system take back the memory in which it keeps this part of the file, where nobody has it mapped.
  void forget_pages(const TensorInfo& tensor) const;

  // The whole file in memory, mapped when first asked for; lives as long as anyone holds it. Tensors lie at their offsets, unaligned.
  Result<std::shared_ptr<const FileMapping>> mapping() const;

 private:
  TensorFile(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  Result<FileHeader> read_header() const;
  Result<FileHeader> read_safetensors_header() const;
  [[nodiscard]] std::optional<Error> refuse_stranger(std::span<const std::uint8_t> start) const;

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t file_bytes_ = 0;
  FileHeader header_;
  std::array<std::int64_t, 3> stamp_{};  // size and time of the last change
  struct Shared;                         // what is opened when first asked for
  std::shared_ptr<Shared> shared_;
};

}  // namespace tritium
