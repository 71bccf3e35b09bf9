#include "base/try.h"
#include "weights/tensor_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tritium {
namespace {

using nlohmann::ordered_json;

struct ValueText {
  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(std::uint32_t number) const { return fmt::format("{}", number); }
  std::string operator()(float number) const { return fmt::format("{}", number); }
  std::string operator()(const std::vector<std::int32_t>& numbers) const { return fmt::format("[{}]", fmt::join(numbers, ", ")); }
};

}  // namespace

Result<FileLayout> layout_safetensors(std::span<const TensorDeclaration> tensors, const FileMetadata& metadata) {
  TRITIUM_TRY(check_declarations(tensors, metadata));
  FileLayout out{Container::safetensors, {}, {}, 0};
  for (const TensorDeclaration& tensor : tensors) {
    if (is_block_dtype(tensor.dtype))
      return Error{ErrorCode::failure, fmt::format("a safetensors file cannot hold {}", dtype_name(tensor.dtype)), tensor.name, ""};
    if (tensor.name == "__metadata__") return Error{ErrorCode::failure, "a tensor cannot have this name", tensor.name, ""};
    out.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, 0, *stored_bytes(tensor.dtype, tensor.shape)});
  }
  // Large elements first: every tensor is aligned to its elements, as many readers expect.
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return dtype_size(tensors[a].dtype) > dtype_size(tensors[b].dtype); });
  ordered_json header = ordered_json::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = std::visit(ValueText{}, value);
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    TensorInfo& tensor = out.tensors[i];
    tensor.offset = end;
    if (__builtin_add_overflow(end, tensor.bytes, &end)) return Error{ErrorCode::failure, "the file would be too large", tensor.name, ""};
    header.push_back({tensor.name, {{"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {tensor.offset, end}}}});
  }
  std::string text = header.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  for (std::size_t i = 0; i < 8; ++i) out.header.push_back(static_cast<char>(text.size() >> (8 * i) & 0xFFu));
  out.header += text;
  for (TensorInfo& tensor : out.tensors) tensor.offset += out.header.size();
  out.file_bytes = out.header.size() + end;
  return out;
}

}  // namespace tritium
