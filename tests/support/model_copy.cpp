#include "support/model_copy.h"

#include "base/files.h"
#include "weights/safetensors.h"

#include <cstring>

namespace tritium::test {
namespace fs = std::filesystem;

ModelCopy::ModelCopy() {
  const fs::path original = fs::path(TRITIUM_SOURCE_DIR) / "models/demo/FL2VA";
  std::error_code code;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(original, code)) {
    const fs::path target = file(entry.path().lexically_relative(original).string());
    fs::create_directories(target.parent_path(), code);
    if (entry.is_regular_file()) fs::create_symlink(entry.path(), target, code);
    if (code) ADD_FAILURE() << "cannot link " << target << ": " << code.message();
  }
}

std::string ModelCopy::content(const std::string& name) const {
  auto text = read_file(file(name));
  if (!text.ok()) ADD_FAILURE() << text.error().text();
  return text.ok() ? std::move(*text) : std::string();
}

void ModelCopy::replace(const std::string& name, std::string_view content) const {
  remove(name);  // the link, so that the original is not written to
  std::ofstream out(file(name), std::ios::binary);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) ADD_FAILURE() << "cannot write " << file(name);
}

void ModelCopy::remove(const std::string& name) const {
  std::error_code code;
  fs::remove_all(file(name), code);
  if (code) ADD_FAILURE() << "cannot remove " << file(name) << ": " << code.message();
}

void ModelCopy::replace_text(const std::string& name, const std::string& from, const std::string& to) const {
  std::string text = content(name);
  std::size_t at = text.find(from);
  if (at == std::string::npos) ADD_FAILURE() << "'" << from << "' is not in " << name;
  for (; at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  replace(name, text);
}

void ModelCopy::set_elements(const std::string& name, const std::string& tensor, float value, bool only_first) const {
  std::string bytes = content(name);
  const auto header = parse_safetensors(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), bytes.size());
  const auto info = header.ok() && header->tensors.contains(tensor) ? header->tensors.find(tensor)->second : TensorInfo{};
  if (info.bytes == 0 || (info.dtype != DType::bf16 && info.dtype != DType::f32)) {
    ADD_FAILURE() << name << " has no BF16 or F32 tensor '" << tensor << "'";
    return;
  }
  const std::size_t size = dtype_size(info.dtype);
  const auto narrow = f32_to_bf16(value);
  for (std::size_t i = 0; i < (only_first ? 1 : info.bytes / size); ++i) {
    char* element = bytes.data() + info.offset + i * size;
    if (size == sizeof(narrow))
      std::memcpy(element, &narrow, size);
    else
      std::memcpy(element, &value, size);
  }
  replace(name, bytes);
}

void ModelCopy::fill_tensor(const std::string& name, const std::string& tensor, float value) const {
  set_elements(name, tensor, value, false);
}
void ModelCopy::poke_tensor(const std::string& name, const std::string& tensor, float value) const {
  set_elements(name, tensor, value, true);
}

}  // namespace tritium::test
