// The stages of a request as the memory planner sees them.
#pragma once

#include "pipeline/cost.h"
#include "pipeline/memory_plan.h"

namespace tritium {

// Memory of the process besides weights and activations: libraries, tokenizer.
inline constexpr std::uint64_t kBaseBytes = std::uint64_t{128} << 20;

struct StageNeed {
  const char* name = "";
  const PartShape* part = nullptr;         // in host memory
  const PartShape* device_part = nullptr;  // on devices of their own memory, where that differs
  std::uint64_t working = 0;               // on every device that runs a part of it
  std::uint64_t host = 0;                  // in host memory
  StageWork work;                          // of all passes
  int passes = 1;
  bool splits = false;         // by blocks over several devices
  std::uint64_t handover = 0;  // bytes from one device to the next in a pass, when it is split
  double units_used = 1;       // the share of the part's units that a pass uses

  [[nodiscard]] const PartShape& part_on(bool host_memory) const { return host_memory || device_part == nullptr ? *part : *device_part; }
};

// With or without acceleration.
[[nodiscard]] DenoiseWork denoise_work(const ModelShape& model, const RequestShape& request);

// In the order they run.
std::vector<StageNeed> stage_needs(const ModelShape& model, const RequestShape& request);

}  // namespace tritium
