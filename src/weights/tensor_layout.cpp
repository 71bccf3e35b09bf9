#include "weights/tensor_layout.h"

#include "base/try.h"
#include "weights/ggml_types.h"

#include <fmt/format.h>
#include <set>

namespace tritium {
namespace {

constexpr std::size_t kMaxNameBytes = 512;

Error refuse(std::string what, const std::string& where) { return Error{ErrorCode::failure, std::move(what), where, ""}; }

// Bytes of the UTF-8 character that starts with `lead`; 0: none does.
std::size_t utf8_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(static_cast<unsigned char>(text[i]));
    if (length == 0 || length > text.size() - i) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0u) != 0x80u) return false;
    i += length;
  }
  return true;
}

Result<void> check_name(const std::string& name, std::set<std::string_view>& seen) {
  if (name.empty()) return refuse("a name is empty", name);
  if (name.size() > kMaxNameBytes) return refuse(fmt::format("the name has {} bytes, the limit is {}", name.size(), kMaxNameBytes), name);
  if (name.find('\0') != std::string::npos) return refuse("the name contains a zero byte", name);
  if (!is_utf8(name)) return refuse("the name is not UTF-8", name);
  if (!seen.insert(name).second) return refuse("there are two of this name", name);
  return {};
}

}  // namespace

Result<void> check_declarations(std::span<const TensorDeclaration> tensors, const FileMetadata& metadata) {
  std::set<std::string_view> names, keys;
  for (const TensorDeclaration& tensor : tensors) {
    TRITIUM_TRY(check_name(tensor.name, names));
    if (!stored_bytes(tensor.dtype, tensor.shape))
      return refuse(fmt::format("{} cannot hold the shape {}", dtype_name(tensor.dtype), shape_text(tensor.shape)), tensor.name);
  }
  for (const auto& [key, value] : metadata) {
    TRITIUM_TRY(check_name(key, keys));
    if (const auto* text = std::get_if<std::string>(&value); text != nullptr && !is_utf8(*text))
      return refuse("the value is not UTF-8", key);
  }
  return {};
}

bool container_has_dtype(Container container, DType type) {
  return container == Container::gguf ? ggml_id(type).has_value() : !is_block_dtype(type);
}

Result<FileLayout> layout_file(Container container, std::span<const TensorDeclaration> tensors, const FileMetadata& metadata) {
  return container == Container::gguf ? layout_gguf(tensors, metadata) : layout_safetensors(tensors, metadata);
}

}  // namespace tritium
