// --memory-budget: what may be written, and what follows from free memory.
#include "pipeline/memory_budget.h"

#include <gtest/gtest.h>
#include <vector>

namespace tritium {
namespace {

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

TEST(MemoryBudget, DevicesAreNamedInAnyCaseOneByOneOrInAList) {
  const auto budgets = parse_memory_budgets(std::vector<std::string>{"Vulkan0=8", "vulkan1=7.5,host=32", "4"});
  ASSERT_TRUE(budgets.ok()) << budgets.error().text();
  EXPECT_EQ(budgets->of("VULKAN0"), 8 * kGib);
  EXPECT_EQ(budgets->of("Vulkan1"), 15 * kGib / 2);
  EXPECT_EQ(budgets->of("host"), 32 * kGib);
  EXPECT_EQ(budgets->of("CPU"), 4 * kGib);
  const auto none = parse_memory_budgets({});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->of("CPU"));
}

TEST(MemoryBudget, WhatIsNoBudgetIsRefusedWithAnExample) {
  for (const std::string text : {"", "CPU=", "=4", "CPU=-1", "CPU=0", "CPU=nan", "CPU=inf", "8GB", "CPU=8,", "1e9", "1,2"}) {
    const auto budgets = parse_memory_budgets(std::vector<std::string>{text});
    ASSERT_FALSE(budgets.ok()) << text;
    EXPECT_EQ(budgets.error().code, ErrorCode::usage);
    EXPECT_EQ(budgets.error().field, "memory-budget");
    EXPECT_NE(budgets.error().hint.find("CPU="), std::string::npos);
  }
  EXPECT_FALSE(parse_memory_budgets(std::vector<std::string>{"CPU=1", "cpu=2"}).ok());
}

TEST(MemoryBudget, TheReserveIsHonouredAndNothingExceedsWhatIsFree) {
  EXPECT_EQ(memory_budget(40 * kGib, {}), 38 * kGib);
  EXPECT_EQ(memory_budget(kGib, {}), kGib - (std::uint64_t{256} << 20));
  EXPECT_EQ(memory_budget(std::uint64_t{100} << 20, {}), 0u);
  EXPECT_EQ(memory_budget(40 * kGib, 40 * kGib), 40 * kGib);
  EXPECT_EQ(memory_budget(40 * kGib, 50 * kGib), 40 * kGib);
  EXPECT_EQ(memory_budget(40 * kGib, 3 * kGib), 3 * kGib);
}

}  // namespace
}  // namespace tritium
