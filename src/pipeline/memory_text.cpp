// The memory plan for people.
#include "base/system.h"
#include "pipeline/memory_plan.h"

#include <fmt/format.h>

namespace tritium {
namespace {

std::string seconds_text(double seconds) {
  if (seconds >= 5400) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds >= 90) return fmt::format("{:.1f} min", seconds / 60);
  return fmt::format("{:.1f} s", seconds);
}

std::string flops_text(double flops) {
  if (flops >= 1e15) return fmt::format("{:.2f} PFLOP", flops * 1e-15);
  if (flops >= 1e12) return fmt::format("{:.2f} TFLOP", flops * 1e-12);
  return fmt::format("{:.2f} GFLOP", flops * 1e-9);
}

std::string blocks_text(const DeviceShare& share) {
  if (share.blocks == 0) return "-";
  if (share.resident_blocks == share.blocks) return fmt::format("{}", share.blocks);
  return fmt::format("{}/{}+{}", share.resident_blocks, share.blocks, share.slots);
}

}  // namespace

std::string memory_text(const std::vector<StagePlan>& stages, const std::vector<MemoryPeak>& memories) {
  constexpr const char* kRow = "{:<8} {:<10} {:<8} {:>7} {:>11} {:>11} {:>11} {:>11} {:>12} {:>9}\n";
  std::string out = fmt::format(fmt::runtime(kRow), "stage", "device", "matrices", "blocks", "resident", "per pass", "working", "in host",
                                "operations", "time");
  for (const StagePlan& s : stages)
    for (const DeviceShare& share : s.shares) {
      const bool first = &share == &s.shares.front();
      const auto once = [first](std::string text) { return first ? std::move(text) : std::string(); };
      out += fmt::format(fmt::runtime(kRow), once(s.name), share.device, once(s.precision), blocks_text(share),
                         format_bytes(share.resident_bytes), format_bytes(share.streamed_bytes), format_bytes(share.working_bytes),
                         once(format_bytes(s.host_bytes)), once(flops_text(s.flops)), once(seconds_text(s.load_seconds + s.seconds)));
    }
  for (const MemoryPeak& m : memories)
    out += fmt::format("memory of {}: about {} at most, {} allowed\n", m.name == "host" ? "the host" : m.name, format_bytes(m.peak_bytes),
                       format_bytes(m.budget_bytes));
  std::string leaving;
  for (const StagePlan& s : stages)
    if (!s.stays) leaving += (leaving.empty() ? "" : ", ") + s.name;
  if (!leaving.empty()) out += "weights that leave when their stage is done: " + leaving + "\n";
  return out;
}

}  // namespace tritium
