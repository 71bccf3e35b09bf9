// Frames between the decoder and the encoder: their order, how many wait, and how either side stops the other.
#include "pipeline/frame_queue.h"

#include <gtest/gtest.h>
#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <thread>

namespace tritium {
namespace {

std::vector<std::uint8_t> frame(int number) { return {static_cast<std::uint8_t>(number)}; }

TEST(FrameQueue, HandsOnEveryFrameInOrder) {
  for (const std::size_t most : {0u, 1u, 3u, 1000u}) {
    std::vector<int> seen;
    FrameQueue queue(
        [&](const std::vector<std::uint8_t>& rgb) -> Result<void> {
          seen.push_back(rgb.at(0));
          return {};
        },
        most);
    std::vector<int> given;
    for (int i = 0; i < 200; ++i) {
      given.push_back(i);
      ASSERT_TRUE(queue.add(frame(i)).ok());
    }
    ASSERT_TRUE(queue.finish().ok());
    EXPECT_EQ(seen, given) << most;
  }
}

TEST(FrameQueue, WithoutAPlaceToWaitTheCallerDoesTheWork) {
  std::thread::id where;
  FrameQueue queue(
      [&](const std::vector<std::uint8_t>&) -> Result<void> {
        where = std::this_thread::get_id();
        return {};
      },
      0);
  ASSERT_TRUE(queue.add(frame(1)).ok());
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_TRUE(queue.finish().ok());
}

// A sink that takes a frame only when it is allowed to.
struct SlowSink {
  std::promise<void> allowed, begun;
  std::atomic<int> taken{0};
  Result<void> operator()() {
    if (taken++ == 0) {
      begun.set_value();
      allowed.get_future().wait();
    }
    return {};
  }
};

TEST(FrameQueue, TheDecoderRunsAheadByNoMoreThanWasAgreed) {
  SlowSink slow;
  FrameQueue queue([&](const std::vector<std::uint8_t>&) { return slow(); }, 2);
  ASSERT_TRUE(queue.add(frame(0)).ok());
  slow.begun.get_future().wait();  // the first is being taken: two others may wait
  ASSERT_TRUE(queue.add(frame(1)).ok());
  ASSERT_TRUE(queue.add(frame(2)).ok());
  std::atomic<bool> added = false;
  std::thread decoder([&] {
    EXPECT_TRUE(queue.add(frame(3)).ok());
    added = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(added) << "a third frame waits";
  EXPECT_EQ(slow.taken, 1);
  slow.allowed.set_value();
  decoder.join();
  ASSERT_TRUE(queue.finish().ok());
  EXPECT_EQ(slow.taken, 4);
}

TEST(FrameQueue, AnErrorOfTheSinkStopsTheDecoder) {
  for (const std::size_t most : {0u, 1u, 4u}) {
    int taken = 0, added = 0;
    FrameQueue queue(
        [&](const std::vector<std::uint8_t>&) -> Result<void> {
          if (++taken == 3) return Error{ErrorCode::does_not_fit, "the disk is full", "", "free some space"};
          return {};
        },
        most);
    Result<void> state;
    while ((state = queue.add(frame(added))).ok()) ASSERT_LT(++added, 100);
    EXPECT_EQ(state.error().code, ErrorCode::does_not_fit);
    EXPECT_EQ(state.error().text(), "the disk is full (free some space)");
    EXPECT_LE(added, 3 + static_cast<int>(most));
    EXPECT_FALSE(queue.add(frame(0)).ok()) << "it does not come back";
    EXPECT_EQ(queue.finish().error().message, "the disk is full");
    EXPECT_EQ(taken, 3) << "no frame follows the one that failed";
  }
}

// The last frames are taken when the decoder is done: their error is found then.
TEST(FrameQueue, AnErrorAtTheEndIsFoundAtTheEnd) {
  FrameQueue queue([](const std::vector<std::uint8_t>&) -> Result<void> { return Error{ErrorCode::failure, "no", "", ""}; }, 10);
  (void)queue.add(frame(0));
  EXPECT_EQ(queue.finish().error().message, "no");
}

TEST(FrameQueue, NoMemoryIsAnErrorAsAnyOther) {
  for (const std::size_t most : {0u, 1u}) {
    FrameQueue queue([](const std::vector<std::uint8_t>&) -> Result<void> { throw std::bad_alloc(); }, most);
    (void)queue.add(frame(0));
    EXPECT_EQ(queue.finish().error().code, ErrorCode::does_not_fit);
  }
}

TEST(FrameQueue, LeftInTheMiddleItDropsWhatWaits) {
  SlowSink slow;
  std::promise<void> leaving;
  // The frame that is being taken is done a while after the queue began to go.
  std::thread later([&] {
    leaving.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    slow.allowed.set_value();
  });
  {
    FrameQueue queue([&](const std::vector<std::uint8_t>&) { return slow(); }, 8);
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(queue.add(frame(i)).ok());
    slow.begun.get_future().wait();
    leaving.set_value();
  }
  later.join();
  EXPECT_EQ(slow.taken, 1);
}

}  // namespace
}  // namespace tritium
