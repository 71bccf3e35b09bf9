#include "job/process_facts.h"

#include <fmt/format.h>
#include <fstream>
#include <string>

namespace tritium {

ProcessMemory process_memory(int pid) {
  ProcessMemory out;
  std::ifstream in(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmHWM:")) out.peak = std::stoull(line.substr(6)) * 1024;
    if (line.starts_with("VmRSS:")) out.resident = std::stoull(line.substr(6)) * 1024;
  }
  return out;
}

void reset_peak_memory(int pid) { std::ofstream(fmt::format("/proc/{}/clear_refs", pid)) << "5"; }

}  // namespace tritium
