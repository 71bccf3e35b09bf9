// Facts about the machine, and the clock.
#pragma once

#include <cstdint>
#include <string>

namespace tritium {

// Processors this process may run on (affinity mask and cgroup CPU quota respected), at least 1.
int usable_cpus();

struct HostMemory {
  std::uint64_t total = 0;      // bytes installed, or the cgroup limit if that is smaller
  std::uint64_t available = 0;  // bytes that can be taken now: min(MemAvailable, cgroup limit - use)
};
HostMemory host_memory();

// Peak resident set of this process in bytes.
std::uint64_t peak_resident_bytes();

// Seconds on a monotonic clock.
double monotonic_seconds();

// "2026-01-31T12:00:00Z"
std::string utc_timestamp();

// "1.23 GiB", "512 B"
std::string format_bytes(std::uint64_t bytes);

}  // namespace tritium
