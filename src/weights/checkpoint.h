// A named set of tensors, whatever files it is spread over: one safetensors or GGUF file, shards listed by an index, or the pieces of a
// split GGUF file.
#pragma once

#include "weights/tensor_file.h"

#include <deque>
#include <filesystem>
#include <vector>

namespace tritium {

class Checkpoint {
 public:
  // `path`: a .safetensors or .gguf file, an .index.json file, or a folder holding "model.safetensors.index.json" or
  // "model.safetensors" (or exactly one other index; or exactly one file of these kinds, the pieces "-0000X-of-0000N.gguf" of one model
  // counting as one). Any piece stands for the whole. All files are opened and their headers checked before anything is returned;
  // missing ones are listed together. Error code: model.
  static Result<Checkpoint> open(const std::filesystem::path& path);

  // nullptr when there is no such tensor.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;  // sorted
  [[nodiscard]] const std::deque<TensorFile>& files() const { return files_; }
  [[nodiscard]] std::uint64_t tensor_bytes() const;
  [[nodiscard]] bool sharded() const { return sharded_; }  // came from an index file

  // Raw bytes of a tensor of this checkpoint. Precondition: out.size() == tensor.bytes.
  Result<void> read(const TensorInfo& tensor, std::span<std::uint8_t> out) const;
  Result<void> read_range(const TensorInfo& tensor, std::uint64_t first, std::span<std::uint8_t> out) const;
  Result<void> read_direct(const TensorInfo& tensor, std::uint64_t first, std::span<std::uint8_t> out) const;  // tensor_file.h
  // Error code model if a file was changed since it was opened.
  Result<void> check_unchanged() const;

  // The mapping of the file a tensor lies in; its bytes are at its offset there, unaligned.
  Result<std::shared_ptr<const FileMapping>> mapping(const TensorInfo& tensor) const;
  // Lets the system take back the memory in which it keeps the tensor's part of the file.
  void forget_pages(const TensorInfo& tensor) const;
  // The tensor widened to float32.
  Result<std::vector<float>> read_f32(const TensorInfo& tensor) const;
  Result<std::vector<float>> read_f32(std::string_view name) const;

 private:
  struct Entry {
    const TensorInfo* info;
    const TensorFile* file;
  };
  Result<const TensorFile*> file_of(const TensorInfo& tensor) const;
  Result<void> add(TensorFile file);
  static Result<Checkpoint> open_index(const std::filesystem::path& index);
  static Result<Checkpoint> open_pieces(const std::vector<std::filesystem::path>& pieces);

  std::deque<TensorFile> files_;  // stable addresses
  std::map<std::string, Entry, std::less<>> entries_;
  bool sharded_ = false;
};

}  // namespace tritium
