// A weight file laid out before any of its data exists: its header, and where every tensor will lie. Data can then be written at any
// offset in any order, so that a large file can be continued after an interruption.
//
//   layout_file(container, tensors, metadata) -> FileLayout
//   write `header` at 0; extend the file to `file_bytes` (what lies between tensors must read as zero); write each tensor at its offset
#pragma once

#include "weights/tensor_info.h"

#include <variant>

namespace tritium {

struct TensorDeclaration {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  // outermost first
};

using MetadataValue = std::variant<std::string, std::uint32_t, float, std::vector<std::int32_t>>;
using FileMetadata = std::vector<std::pair<std::string, MetadataValue>>;  // in the order they are written

struct FileLayout {
  Container container = Container::safetensors;
  std::string header;               // the first bytes of the file, up to the first tensor's data
  std::vector<TensorInfo> tensors;  // in the order of the declarations, with absolute offsets
  std::uint64_t file_bytes = 0;
};

// Errors of both kinds (code failure, field = tensor or key): a name or key that is empty, there twice, longer than 512 bytes, not UTF-8
// or has a zero byte; a shape that cannot be stored. The same input gives the same layout.
Result<FileLayout> layout_file(Container container, std::span<const TensorDeclaration> tensors, const FileMetadata& metadata);

// safetensors: header padded to 8 bytes, tensors by descending element size, otherwise in order; metadata values become text (numbers as
// digits, arrays as JSON). Error: a block type.
Result<FileLayout> layout_safetensors(std::span<const TensorDeclaration> tensors, const FileMetadata& metadata);

// GGUF version 3: tensors in order, each at a multiple of 32. A tensor of more than 4 dimensions is stored with its outermost ones
// merged, and metadata "comfy.gguf.orig_shape.<name>" (i32 array) keeps its shape. Errors: a type ggml does not have (8-bit floats, U8,
// BOOL, ...), rows that do not fill blocks, a tensor without elements.
Result<FileLayout> layout_gguf(std::span<const TensorDeclaration> tensors, const FileMetadata& metadata);

// Whether such a file can hold tensors of this type.
[[nodiscard]] bool container_has_dtype(Container container, DType type);

// The checks both containers share: names, keys, shapes. For the two functions above.
Result<void> check_declarations(std::span<const TensorDeclaration> tensors, const FileMetadata& metadata);

}  // namespace tritium
