#include "weights/names.h"

namespace tritium {

std::optional<std::string> prefix_before(const LogicalTensors& tensors, std::string_view end) {
  for (const auto& [name, tensor] : tensors.all())
    if (name.ends_with(end) && (name.size() == end.size() || name[name.size() - end.size() - 1] == '.'))
      return name.substr(0, name.size() - end.size());
  return std::nullopt;
}

}  // namespace tritium
