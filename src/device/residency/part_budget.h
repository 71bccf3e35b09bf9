// How much of a device's memory the weights of one part may take.
#pragma once

#include <cstdint>

namespace tritium {

struct PartBudget {
  std::uint64_t resident_bytes = 0;  // 0: no limit, everything is resident

  [[nodiscard]] bool holds(std::uint64_t bytes) const { return resident_bytes == 0 || bytes <= resident_bytes; }
};

}  // namespace tritium
