// Strict reader of the safetensors container (spec/weights.md §2.1).
// Bytes 0..7: header length, little endian; then a JSON header; then the data section, tiled by the tensors without holes.
#pragma once

#include "weights/dtype.h"

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tritium {

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  // outermost first, as torch prints it; empty for a scalar
  std::uint64_t offset = 0;         // absolute position in the file; no alignment is promised
  std::uint64_t bytes = 0;

  [[nodiscard]] std::int64_t elements() const;
};

// "[21504, 5376]"
std::string shape_text(std::span<const std::int64_t> shape);

struct SafetensorsHeader {
  std::map<std::string, TensorInfo, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

// Pure part of the reader, for tests and fuzzing: `prefix` holds at least the first 8 bytes and the header of a file of
// `file_bytes` bytes. Every violation of the format is an error that says what and where.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::uint8_t> prefix, std::uint64_t file_bytes);

class SafetensorsFile {
 public:
  // Reads and checks the header only. Errors (code model) name the file; truncated downloads and Git LFS pointers are recognised.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  ~SafetensorsFile();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }

  // Copies the tensor's raw bytes. Precondition: out.size() == tensor.bytes and the tensor belongs to this file.
  Result<void> read(const TensorInfo& tensor, std::span<std::uint8_t> out) const;
  // The bytes [first, first + out.size()) of the tensor. Precondition: they lie within it.
  Result<void> read_range(const TensorInfo& tensor, std::uint64_t first, std::span<std::uint8_t> out) const;

 private:
  SafetensorsFile(std::filesystem::path path, int fd, std::uint64_t file_bytes, SafetensorsHeader header);
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t file_bytes_ = 0;
  SafetensorsHeader header_;
};

}  // namespace tritium
