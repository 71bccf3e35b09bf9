// What a weight file says about its tensors, whatever its container.
#pragma once

#include "weights/dtype.h"

#include <tritium/result.h>

#include <map>
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

// Bytes of a tensor. None if a dimension is negative, the size does not fit 63 bits, or the elements do not fill the type's blocks.
std::optional<std::uint64_t> stored_bytes(DType type, std::span<const std::int64_t> shape);

enum class Container { safetensors, gguf };
std::string_view container_name(Container container);  // "safetensors", "GGUF"

struct FileHeader {
  Container container = Container::safetensors;
  std::map<std::string, TensorInfo, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;  // of GGUF: see parse_gguf
};

}  // namespace tritium
