// Which finished jobs go.
#pragma once

#include "job/store.h"

namespace tritium {

struct RetentionLimits {
  double days = 0;          // 0: any age
  std::size_t count = 0;    // 0: any number
  std::uint64_t bytes = 0;  // 0: any size
};

// Ids of the jobs to remove, oldest first. `finished`: oldest first. The newest one always stays within the limit of bytes: a result is not
// removed before anybody could fetch it.
std::vector<std::string> beyond_limits(const std::vector<FinishedJob>& finished, const RetentionLimits& limits);

}  // namespace tritium
