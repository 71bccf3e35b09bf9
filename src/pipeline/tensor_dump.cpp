#include "pipeline/tensor_dump.h"

#include "weights/safetensors_writer.h"

#include <fmt/format.h>
#include <cstdio>

namespace tritium {

Result<TensorObserver> make_tensor_dump(const std::filesystem::path& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return Error{ErrorCode::failure, fmt::format("cannot create '{}': {}", folder.string(), code.message()), "dump-tensors", ""};
  return TensorObserver([folder, number = 0, failed = false](const std::string& name, std::span<const std::int64_t> ne,
                                                             std::span<const float> values) mutable {
    if (failed) return;
    std::vector<std::int64_t> shape(ne.rbegin(), ne.rend());
    while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
    const NamedTensor tensor{"value", shape, values};
    const auto written =
        write_safetensors(folder / fmt::format("{:06}_{}.safetensors", number++, name), std::span(&tensor, 1), {{"name", name}});
    if (!written.ok()) std::fprintf(stderr, "dump-tensors: %s\n", written.error().text().c_str());
    failed = !written.ok();
  });
}

}  // namespace tritium
