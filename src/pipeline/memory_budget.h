// How much memory a request may take: what the user allows, or what is free minus a reserve.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace tritium {

struct MemoryBudgets {
  std::optional<std::uint64_t> everywhere;       // bytes, for every device not named
  std::map<std::string, std::uint64_t> devices;  // by lower-case name; "host" for host memory

  [[nodiscard]] std::optional<std::uint64_t> of(const std::string& device) const;
};

// "DEV=GiB", repeated or separated by commas, or one number for every device. Errors (usage, field memory-budget): not a positive number,
// a device named twice.
Result<MemoryBudgets> parse_memory_budgets(std::span<const std::string> texts);

// What is left to others and to what a plan cannot foresee: a twentieth of the free memory, at least 256 MiB.
std::uint64_t memory_reserve(std::uint64_t free_bytes);

// The budget of a device with this much free: as asked, but never more than is free; without a wish free minus the reserve.
std::uint64_t memory_budget(std::uint64_t free_bytes, std::optional<std::uint64_t> asked);

}  // namespace tritium
