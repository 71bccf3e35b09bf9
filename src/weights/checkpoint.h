// A named set of tensors, whatever files it is spread over: one safetensors file, or shards listed by an index.
#pragma once

#include "weights/safetensors.h"

#include <deque>
#include <filesystem>
#include <vector>

namespace tritium {

class Checkpoint {
 public:
  // `path`: a .safetensors file, an .index.json file, or a folder holding "model.safetensors.index.json" or "model.safetensors"
  // (or exactly one other index or file of these kinds). All shards are opened and their headers checked before anything is
  // returned; missing shards are listed together. Error code: model.
  static Result<Checkpoint> open(const std::filesystem::path& path);

  // nullptr when there is no such tensor.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;  // sorted
  [[nodiscard]] const std::deque<SafetensorsFile>& files() const { return files_; }
  [[nodiscard]] std::uint64_t tensor_bytes() const;
  [[nodiscard]] bool sharded() const { return sharded_; }  // came from an index file

  // Raw bytes of a tensor of this checkpoint. Precondition: out.size() == tensor.bytes.
  Result<void> read(const TensorInfo& tensor, std::span<std::uint8_t> out) const;
  Result<void> read_range(const TensorInfo& tensor, std::uint64_t first, std::span<std::uint8_t> out) const;
  // The tensor widened to float32.
  Result<std::vector<float>> read_f32(const TensorInfo& tensor) const;
  Result<std::vector<float>> read_f32(std::string_view name) const;

 private:
  struct Entry {
    const TensorInfo* info;
    const SafetensorsFile* file;
  };
  Result<const SafetensorsFile*> file_of(const TensorInfo& tensor) const;
  Result<void> add_file(const std::filesystem::path& path);
  static Result<Checkpoint> open_index(const std::filesystem::path& index);

  std::deque<SafetensorsFile> files_;  // stable addresses
  std::map<std::string, Entry, std::less<>> entries_;
  bool sharded_ = false;
};

}  // namespace tritium
