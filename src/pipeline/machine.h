// The machine as the memory planner sees it: devices, budgets and speeds as they are now.
#pragma once

#include "pipeline/memory_budget.h"
#include "pipeline/memory_plan.h"
#include "pipeline/parts.h"
#include "pipeline/placement.h"

namespace tritium {

// The dimensions by which the released transformer is known.
inline constexpr int kReleasedLayers = 50;
inline constexpr std::int64_t kReleasedHidden = 5376;

// What a request may use.
struct MachineOptions {
  Placement placement;
  MemoryBudgets budgets;
  int threads = 0;                // of the CPU; 0: all usable
  bool budgets_are_free = false;  // those that are named hold, whatever is free
};

// Weights loaded already, and whatever else this process holds, are counted as needed by a plan, so they count as available too. Errors:
// those of opening a device that is named; usage for a budget of a device that is not used.
Result<Machine> describe_machine(const MachineOptions& options, DeviceSet& devices, const Parts& parts);

// Its budgets in the form that parse_memory_budgets() reads, "host" first.
std::vector<std::string> budget_texts(const Machine& machine);

// Host memory that a plan may count on.
std::uint64_t free_host_memory();

// The released model in other formats if this is one of its forms, and the devices that are not used.
MemoryAlternatives find_alternatives(const MachineOptions& options, const Machine& machine, const DitConfig& model);

}  // namespace tritium
