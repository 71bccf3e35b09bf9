// What the system knows about another process.
#pragma once

#include <cstdint>

namespace tritium {

struct ProcessMemory {
  std::uint64_t resident = 0, peak = 0;  // bytes; 0: the process is gone
};
ProcessMemory process_memory(int pid);

// The peak counts from now on. Not possible everywhere; then it counts from the beginning of the process.
void reset_peak_memory(int pid);

// When a process began, in the system's own units; with its number it names one process for ever. 0: there is none, or it is over.
std::uint64_t process_start(int pid);

}  // namespace tritium
