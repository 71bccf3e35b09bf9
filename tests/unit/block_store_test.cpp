// The store of streamed units: what is in memory when, what is read how often, and what happens when reading fails or is stopped.
#include "device/residency/block_store.h"

#include "support/golden.h"

#include <gtest/gtest.h>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>

namespace tritium {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kUnit = 1024;

std::unique_ptr<Device> cpu() { return std::move(Device::open("CPU", 1)).value(); }

// Units that are filled with their own number.
struct Fakes {
  std::atomic<int> loads{0}, running{0}, most_running{0};
  std::atomic<int> failing{-1};  // this unit cannot be read
  milliseconds takes{0};

  struct Loaded {
    int unit;
    const std::uint8_t* bytes;
  };
  BlockUnits units(int count, std::uint64_t bytes = kUnit) {
    BlockUnits out;
    out.what = "units";
    out.sizes.assign(static_cast<std::size_t>(count), {bytes, 0});
    out.load = [this, bytes](int unit, const DeviceBuffer& slot, const CancelToken& cancel) -> Result<std::shared_ptr<const void>> {
      most_running = std::max<int>(most_running, ++running);
      ++loads;
      const auto until = std::chrono::steady_clock::now() + takes;
      while (std::chrono::steady_clock::now() < until && !cancel.cancelled()) std::this_thread::sleep_for(milliseconds(1));
      --running;
      if (unit == failing) return Error{ErrorCode::model, "cannot read 'weights'", "", ""};
      auto* at = static_cast<std::uint8_t*>(ggml_backend_buffer_get_base(slot.get()));
      std::memset(at, unit + 1, bytes);
      return std::shared_ptr<const void>(std::make_shared<Loaded>(Loaded{unit, at}));
    };
    return out;
  }
};

bool holds(const BlockPin& pin, int unit, std::uint64_t bytes = kUnit) {
  const auto& loaded = pin.as<Fakes::Loaded>();
  return loaded.unit == unit && std::all_of(loaded.bytes, loaded.bytes + bytes, [&](std::uint8_t b) { return b == unit + 1; });
}

void run_pass(BlockStore& store, int units, int passes_left) {
  store.expect(passes_left);
  for (int i = 0; i < units; ++i) {
    const auto pin = store.pin(i);
    ASSERT_TRUE(pin.ok()) << pin.error().text();
    ASSERT_TRUE(holds(*pin, i)) << i;
    std::this_thread::sleep_for(milliseconds(1));
    ASSERT_TRUE(holds(*pin, i)) << i << ": overwritten while in use";
  }
}

TEST(BlockStore, EveryBudgetGivesEveryUnitAndStaysWithinIt) {
  const auto device = cpu();
  constexpr int kUnits = 7, kPasses = 3;
  for (const double units : {1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 6.99, 7.0, 9.0}) {
    SCOPED_TRACE(units);
    Fakes fakes;
    const auto budget = static_cast<std::uint64_t>(units * kUnit);
    const auto store = BlockStore::create(*device, fakes.units(kUnits), budget);
    ASSERT_TRUE(store.ok()) << store.error().text();
    for (int pass = 0; pass < kPasses; ++pass) run_pass(**store, kUnits, kPasses - pass);
    const auto facts = (*store)->facts();
    EXPECT_LE(facts.resident_bytes, budget);
    EXPECT_EQ(fakes.most_running, 1);
    if (units >= kUnits) {
      EXPECT_EQ(facts.kept, kUnits);
      EXPECT_EQ(facts.loads, kUnits) << "read once";
    } else {
      EXPECT_EQ(facts.kept, std::max(0, static_cast<int>(units) - 2));
      EXPECT_EQ(facts.slots, units < 2 ? 1 : 2);
      const int streamed = kUnits - facts.kept;
      // What the slots still hold at the end of a pass is not what the next one begins with.
      EXPECT_LE(static_cast<int>(facts.loads), facts.kept + kPasses * streamed);
    }
  }
}

TEST(BlockStore, MemoryIsGivenBackAndUnitsAreStreamedFromThenOn) {
  const auto device = cpu();
  constexpr int kUnits = 8;
  for (const int budget : {6, kUnits}) {  // with slots already, and without any
    SCOPED_TRACE(budget);
    Fakes fakes;
    const auto store = BlockStore::create(*device, fakes.units(kUnits), budget * kUnit);
    ASSERT_TRUE(store.ok());
    run_pass(**store, kUnits, 3);
    {
      const auto pin = (*store)->pin(kUnits - 1);
      ASSERT_TRUE(pin.ok());
      EXPECT_EQ((*store)->give_back(2 * kUnit), 2 * kUnit);
      EXPECT_TRUE(holds(*pin, kUnits - 1)) << "what is in use stays";
    }
    const auto facts = (*store)->facts();
    EXPECT_EQ(facts.resident_bytes, (budget - 2) * kUnit);
    EXPECT_EQ(facts.kept, budget - 4);
    run_pass(**store, kUnits, 2);
    run_pass(**store, kUnits, 1);
    EXPECT_EQ((*store)->give_back(100 * kUnit), (budget - 4) * kUnit) << "all but the slots";
    run_pass(**store, kUnits, 1);
    EXPECT_EQ((*store)->give_back(1), 0u);
  }
}

// A pass may leave units out: they are not read, and do not take room from those that are.
TEST(BlockStore, OnlyUnitsOfThePassAreRead) {
  const auto device = cpu();
  constexpr int kUnits = 8, kPasses = 3;
  const std::vector<int> pass = {0, 1, 4, 7};
  for (const int budget : {1, 2, 4, kUnits}) {
    SCOPED_TRACE(budget);
    Fakes fakes;
    std::set<int> read;
    std::mutex mutex;
    BlockUnits units = fakes.units(kUnits);
    units.load = [&, load = units.load](int unit, const DeviceBuffer& slot, const CancelToken& cancel) {
      {
        const std::lock_guard lock(mutex);
        read.insert(unit);
      }
      return load(unit, slot, cancel);
    };
    const auto store = BlockStore::create(*device, std::move(units), static_cast<std::uint64_t>(budget) * kUnit);
    ASSERT_TRUE(store.ok()) << store.error().text();
    for (int left = kPasses; left > 0; --left) {
      (*store)->expect(left, pass);
      for (const int unit : pass) {
        const auto pin = (*store)->pin(unit);
        ASSERT_TRUE(pin.ok()) << pin.error().text();
        ASSERT_TRUE(holds(*pin, unit)) << unit;
        std::this_thread::sleep_for(milliseconds(1));
        ASSERT_TRUE(holds(*pin, unit)) << unit;
      }
    }
    {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(read, std::set<int>(pass.begin(), pass.end()));
    }
    if (budget == kUnits) { EXPECT_EQ(fakes.loads, static_cast<int>(pass.size())) << "read once"; }
    // Another one all the same, and then all of them.
    {
      const auto pin = (*store)->pin(5);
      ASSERT_TRUE(pin.ok());
      EXPECT_TRUE(holds(*pin, 5));
    }
    run_pass(**store, kUnits, 1);
  }
}

TEST(BlockStore, BelowOneUnitSaysNeedAndHave) {
  const auto device = cpu();
  Fakes fakes;
  const auto store = BlockStore::create(*device, fakes.units(4, 2048), 1024);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, ErrorCode::does_not_fit);
  EXPECT_NE(store.error().message.find("2.00 KiB"), std::string::npos) << store.error().text();
  EXPECT_NE(store.error().message.find("1.00 KiB"), std::string::npos) << store.error().text();
  EXPECT_EQ(fakes.loads, 0);
}

TEST(BlockStore, UnitsOfDifferentSizesShareSlotsOfTheLargest) {
  const auto device = cpu();
  Fakes fakes;
  BlockUnits units = fakes.units(6);
  for (std::size_t i = 0; i < units.sizes.size(); ++i) units.sizes[i] = {kUnit + 512 * i, 100};
  const std::uint64_t least = BlockStore::least_bytes(units.sizes);
  EXPECT_EQ(least, kUnit + 512 * 5 + 100);
  const auto store = BlockStore::create(*device, units, 3 * least);
  ASSERT_TRUE(store.ok());
  EXPECT_LE((*store)->facts().resident_bytes, 3 * least);
  run_pass(**store, 6, 2);
  run_pass(**store, 6, 1);
}

TEST(BlockStore, TheNextUnitIsReadWhileOneIsInUse) {
  const auto device = cpu();
  Fakes fakes;
  fakes.takes = milliseconds(20);
  const auto store = BlockStore::create(*device, fakes.units(6), 2 * kUnit);
  ASSERT_TRUE(store.ok());
  (*store)->expect(1);
  for (int i = 0; i < 6; ++i) {
    const auto pin = (*store)->pin(i);
    ASSERT_TRUE(pin.ok());
    for (int waited = 0; i < 5 && fakes.loads < i + 2 && waited < 2000; ++waited) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(fakes.loads, std::min(6, i + 2)) << "the next one begins while " << i << " is pinned";
  }
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(fakes.loads, 6) << "nothing is read after the last pass";
}

TEST(BlockStore, NothingIsReadAheadWithOneSlot) {
  const auto device = cpu();
  Fakes fakes;
  const auto store = BlockStore::create(*device, fakes.units(3), kUnit + kUnit / 2);
  ASSERT_TRUE(store.ok());
  (*store)->expect(1);
  const auto first = (*store)->pin(0);
  ASSERT_TRUE(first.ok());
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(fakes.loads, 1);
  const auto second = (*store)->pin(1);
  ASSERT_FALSE(second.ok()) << "a second pin would wait for ever";
  EXPECT_EQ(second.error().code, ErrorCode::failure);
}

TEST(BlockStore, AFailedReadComesOutAtItsPinAndCanBeTriedAgain) {
  const auto device = cpu();
  for (const std::uint64_t budget : {1 * kUnit, 2 * kUnit, 4 * kUnit, 8 * kUnit}) {
    SCOPED_TRACE(budget);
    Fakes fakes;
    fakes.failing = 3;
    const auto store = BlockStore::create(*device, fakes.units(6), budget);
    ASSERT_TRUE(store.ok());
    (*store)->expect(1);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE((*store)->pin(i).ok());
    const auto failed = (*store)->pin(3);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().message, "cannot read 'weights'");
    fakes.failing = -1;
    for (int i = 3; i < 6; ++i) {
      const auto pin = (*store)->pin(i);
      ASSERT_TRUE(pin.ok()) << pin.error().text();
      EXPECT_TRUE(holds(*pin, i));
    }
  }
}

TEST(BlockStore, WaitingCanBeCancelledAndTheNextRequestBeginsAnew) {
  const auto device = cpu();
  Fakes fakes;
  fakes.takes = milliseconds(300);
  const auto store = BlockStore::create(*device, fakes.units(5), 2 * kUnit);
  ASSERT_TRUE(store.ok());
  CancelToken cancel;
  std::thread user([&] {
    std::this_thread::sleep_for(milliseconds(50));
    cancel.cancel();
  });
  (*store)->expect(1);
  const auto pin = (*store)->pin(0, &cancel);
  user.join();
  ASSERT_FALSE(pin.ok());
  EXPECT_EQ(pin.error().code, ErrorCode::interrupted);
  fakes.takes = milliseconds(0);
  run_pass(**store, 5, 1);
  ASSERT_TRUE((*store)->pin(2).ok()) << "in the middle";
  run_pass(**store, 5, 1);
}

TEST(BlockStore, EndsWhileItReads) {
  const auto device = cpu();
  Fakes fakes;
  fakes.takes = milliseconds(60'000);  // a slow disk; the loader sees that it is to stop
  const auto store = BlockStore::create(*device, fakes.units(5), 2 * kUnit);
  ASSERT_TRUE(store.ok());
  (*store)->expect(1);
  while (fakes.loads == 0) std::this_thread::sleep_for(milliseconds(1));
}

TEST(BlockStore, PoisonCoversWhatWasThere) {
  ASSERT_EQ(setenv("TRITIUM_POISON", "1", 1), 0);
  const auto device = cpu();
  Fakes fakes;
  BlockUnits units = fakes.units(3);
  const auto inner = units.load;
  std::atomic<bool> clean{true};
  units.load = [&](int unit, const DeviceBuffer& slot, const CancelToken& cancel) {
    const auto* at = static_cast<const std::uint8_t*>(ggml_backend_buffer_get_base(slot.get()));
    if (!std::all_of(at, at + kUnit, [](std::uint8_t b) { return b == 0xFF; })) clean = false;
    return inner(unit, slot, cancel);
  };
  const auto store = BlockStore::create(*device, units, kUnit);
  unsetenv("TRITIUM_POISON");
  ASSERT_TRUE(store.ok());
  run_pass(**store, 3, 1);
  EXPECT_TRUE(clean);
}

TEST(BlockStore, ManyThreadsMayPinAtOnce) {
  const auto device = cpu();
  Fakes fakes;
  const auto store = BlockStore::create(*device, fakes.units(8), 5 * kUnit);
  ASSERT_TRUE(store.ok());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int unit = (i * (3 + 2 * t) + t) % 8;
        const auto pin = (*store)->pin(unit);
        if (pin.ok() ? !holds(*pin, unit) : pin.error().code != ErrorCode::failure) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tritium
