// Writing float32 tensors as a safetensors file.
#pragma once

#include "weights/tensor_info.h"

#include <filesystem>

namespace tritium {

struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // outermost first
  std::span<const float> values;
};

// The file appears under its name when it is complete; its header is padded to 8 bytes. Error failure: a shape that does not fit its
// values, or two tensors of one name; otherwise those of AtomicFile.
Result<void> write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const std::map<std::string, std::string>& metadata = {});

}  // namespace tritium
