// Facts about the machine, and the clock.
#pragma once

#include <cstdint>
#include <string>

namespace tritium {

// Processors this process may run on (affinity mask and cgroup CPU quota respected), at least 1.
int usable_cpus();

// File pages that the system can take back count as available. Limits are those of every cgroup above this process, and its own (ulimit).
struct HostMemory {
  std::uint64_t total = 0;      // bytes installed, or the smallest limit if that is less
  std::uint64_t available = 0;  // bytes that can be taken now
};
HostMemory host_memory();

// Memory of this process that lies in no file: what it gives back when it frees everything.
std::uint64_t own_anonymous_bytes();

// Peak resident set of this process in bytes.
std::uint64_t peak_resident_bytes();

// Seconds on a monotonic clock.
double monotonic_seconds();

// "2026-01-31T12:00:00Z"
std::string utc_timestamp();

// "1.23 GiB", "512 B"
std::string format_bytes(std::uint64_t bytes);

}  // namespace tritium
