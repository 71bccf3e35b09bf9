#include "base/system.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
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

// This process's place in a hierarchy of cgroups: "" for that of version 2, otherwise of the controller.
std::string own_cgroup(std::string_view controller = "") {
  std::ifstream in("/proc/self/cgroup");
  std::string line;  // "number:controllers:path"
  while (std::getline(in, line)) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == fmt::format(",{},", controller) ||
        (!controller.empty() && controllers.find(fmt::format(",{},", controller)) != std::string::npos))
      return line.substr(second + 1);
  }
  return {};
}

// The value of "key: number kB" in a file of /proc, in bytes; 0 if it is not there.
std::uint64_t proc_bytes(const char* path, std::string_view key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line))
    if (line.size() > key.size() && line.compare(0, key.size(), key) == 0 && line[key.size()] == ':')
      return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  return 0;
}

// The value of "key number" in memory.stat.
std::uint64_t stat_value(const std::string& path, std::string_view key) {
  std::ifstream in(path);
  std::string name;
  std::uint64_t value = 0;
  while (in >> name >> value)
    if (name == key) return value;
  return 0;
}

void limit_to(HostMemory& memory, std::uint64_t limit, std::uint64_t used) {
  memory.total = std::min(memory.total, limit);
  memory.available = std::min(memory.available, limit > used ? limit - used : 0);
}

// One cgroup's limit. Its use counts file pages too, which give way.
void limit_to_group(HostMemory& memory, const std::string& group, const char* limit_name, const char* used_name) {
  const auto limit = first_number(group + limit_name), used = first_number(group + used_name);
  if (!limit || !used || *limit >= memory.total) return;
  const std::string stat = group + "/memory.stat";
  const std::uint64_t pages = stat_value(stat, "inactive_file") + stat_value(stat, "active_file");
  limit_to(memory, *limit, *used - std::min(*used, pages));
}

// A group's limit and those of the groups above it. In a container the path may be that of the host: then only the root is there.
void limit_to_groups(HostMemory& memory, const std::string& root, std::string path, const char* limit_name, const char* used_name) {
  for (;; path.resize(std::max(path.rfind('/'), std::size_t{0}))) {
    limit_to_group(memory, root + path, limit_name, used_name);
    if (path.empty() || path.rfind('/') == std::string::npos) return;
  }
}

}  // namespace

int usable_cpus() {
  int cpus = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = std::max(1, CPU_COUNT(&set));
  std::ifstream in("/sys/fs/cgroup" + own_cgroup() + "/cpu.max");  // "quota period" in microseconds, or "max period"
  double quota = 0, period = 0;
  if (in >> quota >> period && period > 0) cpus = std::clamp(static_cast<int>(std::ceil(quota / period)), 1, cpus);
  return cpus;
}

HostMemory host_memory() {
  HostMemory memory{proc_bytes("/proc/meminfo", "MemTotal"), proc_bytes("/proc/meminfo", "MemAvailable")};
  limit_to_groups(memory, "/sys/fs/cgroup", own_cgroup(), "/memory.max", "/memory.current");
  limit_to_groups(memory, "/sys/fs/cgroup/memory", own_cgroup("memory"), "/memory.limit_in_bytes", "/memory.usage_in_bytes");
  for (const auto& [resource, used] : {std::pair(RLIMIT_AS, "VmSize"), std::pair(RLIMIT_DATA, "VmData")}) {
    rlimit limit{};
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      limit_to(memory, limit.rlim_cur, proc_bytes("/proc/self/status", used));
  }
  return memory;
}

std::uint64_t own_anonymous_bytes() { return proc_bytes("/proc/self/status", "RssAnon"); }

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
