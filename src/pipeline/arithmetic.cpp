#include "pipeline/arithmetic.h"

#include "device/device.h"

#include <fmt/format.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tritium {
namespace {

std::string this_build() {
  constexpr const char* kProgram = "/proc/self/exe";
  std::error_code ignored;
  return fmt::format("{}|{}", std::filesystem::file_size(kProgram, ignored),
                     std::filesystem::last_write_time(kProgram, ignored).time_since_epoch().count());
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line) && !line.starts_with("model name")) continue;
  return line;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string arithmetic_of_this_program() {
  return fmt::format("{}|{}|{}|{}|{}", this_build(), processor(), environment("TRITIUM_KERNELS"), environment("ONEDNN_MAX_CPU_ISA"),
                     backend_library_version());
}

}  // namespace tritium
