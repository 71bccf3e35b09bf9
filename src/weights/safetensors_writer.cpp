#include "weights/safetensors_writer.h"

#include "base/files.h"
#include "base/try.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tritium {

Result<void> write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    std::uint64_t elements = 1;
    for (const std::int64_t dim : tensor.shape) elements *= static_cast<std::uint64_t>(dim);
    if (elements != tensor.values.size())
      return Error{ErrorCode::failure, fmt::format("{} has {} values", shape_text(tensor.shape), tensor.values.size()), tensor.name, ""};
    if (header.contains(tensor.name)) return Error{ErrorCode::failure, "two tensors of this name", tensor.name, ""};
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.values.size_bytes()}}};
    offset += tensor.values.size_bytes();
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xFFu);

  TRITIUM_TRY_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TRITIUM_TRY(file.write(length + text));
  for (const NamedTensor& tensor : tensors)
    TRITIUM_TRY(file.write(std::span(reinterpret_cast<const std::uint8_t*>(tensor.values.data()), tensor.values.size_bytes())));
  return file.commit();
}

}  // namespace tritium
