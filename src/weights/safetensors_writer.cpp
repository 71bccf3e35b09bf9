#include "weights/safetensors_writer.h"

#include "base/files.h"
#include "base/try.h"
#include "weights/tensor_layout.h"

#include <fmt/format.h>

namespace tritium {

Result<void> write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::vector<TensorDeclaration> declared;
  for (const NamedTensor& tensor : tensors) {
    declared.push_back({tensor.name, DType::f32, tensor.shape});
    if (stored_bytes(DType::f32, tensor.shape) != tensor.values.size_bytes())
      return Error{ErrorCode::failure, fmt::format("{} has {} values", shape_text(tensor.shape), tensor.values.size()), tensor.name, ""};
  }
  TRITIUM_TRY_ASSIGN(const FileLayout layout, layout_safetensors(declared, FileMetadata(metadata.begin(), metadata.end())));
  TRITIUM_TRY_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TRITIUM_TRY(file.write(layout.header));
  for (const NamedTensor& tensor : tensors)  // one type: the layout keeps their order
    TRITIUM_TRY(file.write(std::span(reinterpret_cast<const std::uint8_t*>(tensor.values.data()), tensor.values.size_bytes())));
  return file.commit();
}

}  // namespace tritium
