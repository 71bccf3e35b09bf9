// The table of what fits where, for the released model (docs/memory-table.md), and machines written as text.
#pragma once

#include "pipeline/memory_plan.h"

namespace tritium {

// Assumed where nothing has been measured.
inline constexpr double kAssumedDeviceFlops = 5e13;      // of a graphics card or accelerator, per second
inline constexpr double kAssumedCoreFlops = 2e10;        // of a processor core
inline constexpr double kAssumedHostBandwidth = 1.2e10;  // from host memory to a device, bytes per second
inline constexpr double kAssumedDiskBandwidth = 2e9;

// "24", "2x64", "64,24": devices of so many GiB each, a reserve taken off (memory_budget.h); "cpu:64": none but the host, with 64 GiB.
// `host_gib`: of the others' host. Error (usage, field devices).
Result<Machine> parse_machine(const std::string& text, double host_gib);

// The whole document.
std::string memory_table();

}  // namespace tritium
