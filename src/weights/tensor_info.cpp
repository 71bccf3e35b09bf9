#include "weights/tensor_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tritium {

std::int64_t TensorInfo::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n *= dim;
  return n;
}

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::optional<std::uint64_t> stored_bytes(DType type, std::span<const std::int64_t> shape) {
  const DTypeBlock block = dtype_block(type);
  std::int64_t elements = 1;
  for (const std::int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) return std::nullopt;
  std::int64_t bytes = 0;
  if (elements % block.values != 0 || __builtin_mul_overflow(elements / block.values, block.bytes, &bytes)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::string_view container_name(Container container) { return container == Container::gguf ? "GGUF" : "safetensors"; }

}  // namespace tritium
