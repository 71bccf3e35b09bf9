#include "job/retention.h"

namespace tritium {

std::vector<std::string> beyond_limits(const std::vector<FinishedJob>& finished, const RetentionLimits& limits) {
  std::uint64_t bytes = 0;
  for (const FinishedJob& job : finished) bytes += job.bytes;
  std::vector<std::string> out;
  std::size_t left = finished.size();
  for (const FinishedJob& job : finished) {
    const bool too_old = limits.days > 0 && job.age_days > limits.days;
    const bool too_many = limits.count > 0 && left > limits.count;
    const bool too_large = limits.bytes > 0 && bytes > limits.bytes && left > 1;
    if (!too_old && !too_many && !too_large) break;
    out.push_back(job.id);
    bytes -= job.bytes;
    --left;
  }
  return out;
}

}  // namespace tritium
