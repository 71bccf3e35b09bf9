#include "job/process_facts.h"

#include <fmt/format.h>
#include <fstream>
#include <sstream>
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

std::uint64_t process_start(int pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(in, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int kFieldsBetween = 18;  // state is the third field of the line, the start the twenty-second
  std::string state, skipped;
  fields >> state;
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  std::uint64_t out = 0;
  fields >> out;
  return state == "Z" || state == "X" ? 0 : out;
}

}  // namespace tritium
