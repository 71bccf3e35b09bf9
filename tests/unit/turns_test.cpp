// Who runs beside whom.
#include "pipeline/turns.h"

#include <gtest/gtest.h>
#include <atomic>
#include <thread>
#include <vector>

namespace tritium {
namespace {

TEST(Turns, NobodyRunsBesideOneWhoIsAlone) {
  Turns turns;
  std::atomic<int> sharing = 0, alone = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const auto turn = (i + round) % 3 == 0 ? turns.alone(nullptr) : turns.share(nullptr);
        ASSERT_TRUE(turn.ok());
        std::atomic<int>& mine = turn->is_alone() ? alone : sharing;
        ++mine;
        if (alone > 1 || (alone == 1 && sharing > 0)) ++wrong;
        std::this_thread::yield();
        --mine;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Turns, OneWhoWasAloneMayGoOnSharing) {
  Turns turns;
  CancelToken cancelled;
  cancelled.cancel();
  auto first = turns.alone(nullptr);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(turns.share(&cancelled).ok());
  first->share_from_now_on();
  EXPECT_FALSE(first->is_alone());
  EXPECT_TRUE(turns.share(nullptr).ok());
  EXPECT_FALSE(turns.alone(&cancelled).ok()) << "the first is still there";
  { const Turns::Turn done = std::move(first).value(); }
  EXPECT_TRUE(turns.alone(nullptr).ok());
}

TEST(Turns, WaitingCanBeCancelledAndLeavesNothingBehind) {
  Turns turns;
  CancelToken cancel;
  cancel.cancel();
  {
    const auto first = turns.share(nullptr);
    const auto second = turns.alone(&cancel);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, ErrorCode::interrupted);
    EXPECT_TRUE(turns.share(nullptr).ok()) << "nobody waits any more";
  }
  EXPECT_TRUE(turns.alone(nullptr).ok());
}

TEST(StageGates, AStageTakesAsManyAsItIsWide) {
  StageGates gates;
  std::atomic<int> inside = 0, most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const auto pass = gates.enter("denoise", 2, nullptr);
        ASSERT_TRUE(pass.ok());
        const int now = ++inside;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {}
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        --inside;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 2);
}

TEST(StageGates, ACancelledOneDoesNotHoldUpThoseBehind) {
  StageGates gates;
  CancelToken cancel;
  auto first = gates.enter("text", 1, nullptr);
  cancel.cancel();
  EXPECT_FALSE(gates.enter("text", 1, &cancel).ok());
  EXPECT_TRUE(gates.enter("video", 1, nullptr).ok()) << "another stage";
  std::thread behind([&] { EXPECT_TRUE(gates.enter("text", 1, nullptr).ok()); });
  { const auto done = std::move(first).value(); }
  behind.join();
}

Plan plan_on(const std::string& text, const std::string& dit) {
  Plan plan;
  for (const auto& [name, device] : {std::pair("text", text), std::pair("denoise", dit), std::pair("video", text)}) {
    StagePlan stage;
    stage.name = name;
    stage.host_bytes = 100;
    stage.shares.push_back({device, 1, 1, 0, 1000, 0, 50});
    plan.stages.push_back(stage);
  }
  plan.memories = {{"host", 10000, 3000}};
  return plan;
}

TEST(Overlap, NeedsSeveralDevicesAndRoomForThree) {
  EXPECT_TRUE(may_overlap(plan_on("CPU#2", "CPU")));
  EXPECT_FALSE(may_overlap(plan_on("CPU", "CPU"))) << "one device";
  Plan tight = plan_on("A", "B");
  tight.memories = {{"host", 3299, 3000}};
  EXPECT_FALSE(may_overlap(tight));
  tight.memories = {{"host", 3300, 3000}};
  EXPECT_TRUE(may_overlap(tight));
  Plan leaving = plan_on("A", "B");
  leaving.stages[0].stays = false;
  EXPECT_FALSE(may_overlap(leaving));
  Plan streamed = plan_on("A", "B");
  streamed.stages[1].transfer_bytes = 1;
  EXPECT_FALSE(may_overlap(streamed));
}

}  // namespace
}  // namespace tritium
