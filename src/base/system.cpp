#include "base/system.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>

namespace tritium {
namespace {

// First number of a cgroup or proc file; "max" and unreadable files give nothing.
std::optional<std::uint64_t> first_number(const std::string& path) {
  std::ifstream in(path);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

std::string own_cgroup() {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line))
    if (line.rfind("0::", 0) == 0) return "/sys/fs/cgroup" + line.substr(3);
  return {};
}

std::uint64_t meminfo_bytes(const std::string& key) {
  std::ifstream in("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string unit;
  while (in >> name >> kib) {
    std::getline(in, unit);
    if (name == key + ":") return kib * 1024;
  }
  return 0;
}

}  // namespace

int usable_cpus() {
  int cpus = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = std::max(1, CPU_COUNT(&set));
  std::ifstream in(own_cgroup() + "/cpu.max");  // "quota period" in microseconds, or "max period"
  double quota = 0, period = 0;
  if (in >> quota >> period && period > 0) cpus = std::clamp(static_cast<int>(std::ceil(quota / period)), 1, cpus);
  return cpus;
}

HostMemory host_memory() {
  HostMemory memory{meminfo_bytes("MemTotal"), meminfo_bytes("MemAvailable")};
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t used = 0;
  if (const std::string group = own_cgroup(); !group.empty()) {
    if (const auto value = first_number(group + "/memory.max")) limit = *value;
    if (const auto value = first_number(group + "/memory.current")) used = *value;
  } else if (const auto value = first_number("/sys/fs/cgroup/memory/memory.limit_in_bytes")) {
    limit = *value;
    used = first_number("/sys/fs/cgroup/memory/memory.usage_in_bytes").value_or(0);
  }
  if (limit < memory.total) {
    memory.total = limit;
    memory.available = std::min(memory.available, limit > used ? limit - used : 0);
  }
  return memory;
}

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

double monotonic_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string utc_timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

}  // namespace tritium
