// Weights that do not fit, a block at a time: the units of a part (transformer blocks) come from the disk while their predecessors
// compute, into memory that is used again and again.
//
// Units are used in passes 0, 1, ..., N-1, or in passes over some of them (expect()). Where not all fit, as many as leave room for two
// slots are kept once they have been read; they are spread evenly over a pass. The rest goes through the two slots: one unit computes while
// the next one is read. What a slot held last was used last, so of the units that go through slots the one that gives way is always the one
// needed farthest in the future. With room for one unit only there is one slot, and nothing is read ahead.
#pragma once

#include "device/tensor_pool.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace tritium {

// What a store keeps.
struct BlockUnits {
  std::string what;  // "blocks of the diffusion transformer"
  struct Size {
    std::uint64_t slot_bytes = 0;   // on the device
    std::uint64_t table_bytes = 0;  // beside it on the host
  };
  std::vector<Size> sizes;  // of each unit
  // Reads a unit into a slot; what it returns lives as long as the unit is in memory. Called on the store's own thread for memory of the
  // host, where it may run beside a computation; for other devices by pin().
  std::function<Result<std::shared_ptr<const void>>(int unit, const DeviceBuffer& slot, const CancelToken& cancel)> load;
};

class BlockStore;

// A unit that stays in memory as long as this lives.
class BlockPin {
 public:
  BlockPin() = default;
  BlockPin(BlockPin&& other) noexcept { *this = std::move(other); }
  BlockPin& operator=(BlockPin&& other) noexcept;
  ~BlockPin() { release(); }
  void release();

  // What the unit's load gave. Precondition: it was a T, and this holds a pin.
  template <class T>
  [[nodiscard]] const T& as() const {
    return *static_cast<const T*>(value_);
  }

 private:
  friend class BlockStore;
  BlockPin(BlockStore* store, std::size_t slot, const void* value) : store_(store), slot_(slot), value_(value) {}
  BlockStore* store_ = nullptr;
  std::size_t slot_ = 0;
  const void* value_ = nullptr;
};

class BlockStore {
 public:
  // The least memory with which such units run.
  static std::uint64_t least_bytes(const std::vector<BlockUnits::Size>& sizes);

  // Allocates slots within `budget` bytes; 0: for all units. Errors: does_not_fit (need and have) below one unit, or without the memory.
  // With the environment variable TRITIUM_POISON set to 1 memory is filled with 0xFF before it is used again: a test of who still reads it.
  static Result<std::unique_ptr<BlockStore>> create(Device& device, BlockUnits units, std::uint64_t budget);
  ~BlockStore();
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;

  // `passes` passes over these units begin now, in this order; all units if none are named. Reading ahead starts, and ends with the last of
  // them. Units that are not among these are read only when they are pinned.
  void expect(int passes, std::vector<int> units = {});

  // Waits until the unit is in memory. Units may be pinned in any order; only that of a pass is fast. One that is not in the pass makes the
  // store expect all of them again. Errors: those of loading, which may
  // be tried again; interrupted; failure if every slot is pinned. Thread safe; pins must not outlive the store.
  Result<BlockPin> pin(int unit, const CancelToken* cancel = nullptr);

  // Gives about this much memory back, from units that were kept and are not pinned: they are streamed from now on. Returns how much it
  // was. For when somebody else needs it.
  std::uint64_t give_back(std::uint64_t bytes);

  struct Facts {
    std::uint64_t resident_bytes = 0;  // of all slots and tables
    int units = 0, kept = 0, slots = 0;
    std::uint64_t loads = 0, bytes_read = 0;
    double seconds_reading = 0, seconds_waiting = 0;  // waiting: pin()
  };
  [[nodiscard]] Facts facts() const;

 private:
  friend class BlockPin;
  enum class State { empty, loading, ready, failed };
  struct Slot {
    DeviceBuffer buffer;
    int unit = -1;
    State state = State::empty;
    int pins = 0;
    std::shared_ptr<const void> value;
    std::optional<Error> error;
    bool shared = false;  // not of one unit
  };
  struct Job {
    std::size_t slot;
    int unit;
  };

  explicit BlockStore(BlockUnits units);
  Result<void> allocate(Device& device, std::uint64_t budget);
  void choose_kept(std::uint64_t budget);
  [[nodiscard]] int count() const { return static_cast<int>(units_.sizes.size()); }
  [[nodiscard]] std::optional<int> place_in_pass(int unit) const;
  [[nodiscard]] int distance(int unit) const;  // uses until it is needed again
  void expect_pinned(int unit);
  [[nodiscard]] std::optional<std::size_t> slot_of(int unit) const;
  [[nodiscard]] std::optional<std::size_t> room_for(int unit) const;
  [[nodiscard]] std::optional<Job> next_job() const;
  [[nodiscard]] bool all_pinned() const;
  void load(std::unique_lock<std::mutex>& lock, Job job);
  void read_ahead();
  void unpin(std::size_t slot);

  BlockUnits units_;
  std::vector<bool> kept_;          // of each unit
  std::vector<std::size_t> place_;  // of each kept unit: its slot
  std::vector<Slot> slots_;
  bool poison_ = false;
  CancelToken stop_;

  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  std::vector<int> pass_;                // units in the order of their use
  std::int64_t position_ = 0, end_ = 0;  // in uses since the last expect(): the next one, and the end of the passes
  Facts facts_;
  std::thread thread_;  // not for devices whose memory only the caller may touch
};

}  // namespace tritium
