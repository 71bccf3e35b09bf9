// The stages of a request as the memory planner sees them.
#pragma once

#include "pipeline/memory_plan.h"

namespace tritium {

// Memory of the process besides weights and activations: libraries, tokenizer, encoder.
inline constexpr std::uint64_t kBaseBytes = std::uint64_t{128} << 20;

struct StageNeed {
  const char* name = "";
  const PartShape* part = nullptr;
  std::uint64_t working = 0;  // on every device that runs a part of it
  std::uint64_t host = 0;     // in host memory
  double flops = 0;           // of all passes
  int passes = 1;
  std::uint64_t handover = 0;  // bytes from one device to the next in a pass, when it is split
};

// In the order they run.
std::vector<StageNeed> stage_needs(const ModelShape& model, const RequestShape& request);

}  // namespace tritium
