#include "device/residency/block_store.h"

#include "base/system.h"
#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <numeric>
#include <system_error>

namespace tritium {
namespace {

constexpr int kSharedSlots = 2;  // one computes, one is read
constexpr auto kCancelPoll = std::chrono::milliseconds(20);

std::uint64_t total(const BlockUnits::Size& size) { return size.slot_bytes + size.table_bytes; }

std::vector<int> all_of(int count) {
  std::vector<int> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

BlockPin& BlockPin::operator=(BlockPin&& other) noexcept {
  if (this == &other) return *this;
  release();
  store_ = std::exchange(other.store_, nullptr);
  slot_ = other.slot_;
  value_ = std::exchange(other.value_, nullptr);
  return *this;
}

void BlockPin::release() {
  if (store_ != nullptr) std::exchange(store_, nullptr)->unpin(slot_);
  value_ = nullptr;
}

BlockStore::BlockStore(BlockUnits units) : units_(std::move(units)), pass_(all_of(count())) {}

std::uint64_t BlockStore::least_bytes(const std::vector<BlockUnits::Size>& sizes) {
  BlockUnits::Size largest;
  for (const BlockUnits::Size& size : sizes) {
    largest.slot_bytes = std::max(largest.slot_bytes, size.slot_bytes);
    largest.table_bytes = std::max(largest.table_bytes, size.table_bytes);
  }
  return total(largest);
}

// As many kept units as leave room for the shared slots, evenly spread. Slots are as large as the largest unit of all: which units are
// kept does not change what is left.
void BlockStore::choose_kept(std::uint64_t budget) {
  std::uint64_t all = 0;
  for (const BlockUnits::Size& size : units_.sizes) all += total(size);
  kept_.assign(units_.sizes.size(), budget == 0 || all <= budget);
  const std::uint64_t shared = kSharedSlots * least_bytes(units_.sizes);
  if (kept_.empty() || kept_.front() || budget < shared) return;
  const auto spread = [&](std::int64_t wanted) {
    std::vector<bool> kept(units_.sizes.size(), false);
    for (std::int64_t i = 0; i < wanted; ++i) kept[static_cast<std::size_t>((2 * i + 1) * count() / (2 * wanted))] = true;
    return kept;
  };
  for (std::int64_t wanted = 1; wanted + kSharedSlots < count(); ++wanted) {
    const std::vector<bool> kept = spread(wanted);
    std::uint64_t bytes = shared;
    for (std::size_t i = 0; i < kept.size(); ++i) bytes += kept[i] ? total(units_.sizes[i]) : 0;
    if (bytes > budget) break;
    kept_ = kept;
  }
}

Result<void> BlockStore::allocate(Device& device, std::uint64_t budget) {
  const std::uint64_t least = least_bytes(units_.sizes);
  if (budget != 0 && budget < least)
    return Error{
        ErrorCode::does_not_fit,
        fmt::format("one at a time of the {} needs {}, the budget leaves {}", units_.what, format_bytes(least), format_bytes(budget)),
        "memory_budget", "give more memory or choose a smaller weight format"};
  choose_kept(budget);
  const auto add = [&](std::uint64_t bytes) -> Result<void> {
    TRITIUM_TRY_ASSIGN(DeviceBuffer buffer, DeviceBuffer::create(device, bytes, "one of the " + units_.what));
    slots_.push_back({std::move(buffer), -1, State::empty, 0, nullptr, std::nullopt, false});
    return {};
  };
  place_.resize(kept_.size());
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    if (!kept_[i]) continue;
    place_[i] = slots_.size();
    facts_.resident_bytes += total(units_.sizes[i]);
    TRITIUM_TRY(add(units_.sizes[i].slot_bytes));
  }
  facts_.units = count();
  facts_.kept = static_cast<int>(slots_.size());
  if (facts_.kept == count()) return {};
  std::uint64_t slot_bytes = 0;
  for (const BlockUnits::Size& size : units_.sizes) slot_bytes = std::max(slot_bytes, size.slot_bytes);
  for (; facts_.slots < kSharedSlots && (facts_.slots == 0 || facts_.resident_bytes + least <= budget); ++facts_.slots) {
    TRITIUM_TRY(add(slot_bytes));
    slots_.back().shared = true;
    facts_.resident_bytes += least;
  }
  return {};
}

Result<std::unique_ptr<BlockStore>> BlockStore::create(Device& device, BlockUnits units, std::uint64_t budget) {
  std::unique_ptr<BlockStore> store(new BlockStore(std::move(units)));
  TRITIUM_TRY(store->allocate(device, budget));
  const char* poison = std::getenv("TRITIUM_POISON");
  store->poison_ = poison != nullptr && std::string_view(poison) == "1";
  const bool host = std::all_of(store->slots_.begin(), store->slots_.end(), [](const Slot& slot) { return slot.buffer.is_host(); });
  if (!host) return store;
  try {
    store->thread_ = std::thread([raw = store.get()] { raw->read_ahead(); });
  } catch (const std::system_error&) {}  // without a thread pin() reads
  return store;
}

BlockStore::~BlockStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_.cancel();
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<int> BlockStore::place_in_pass(int unit) const {
  const auto found = std::find(pass_.begin(), pass_.end(), unit);
  return found == pass_.end() ? std::nullopt : std::optional(static_cast<int>(found - pass_.begin()));
}

int BlockStore::distance(int unit) const {
  const int units = static_cast<int>(pass_.size());
  const auto place = place_in_pass(unit);
  return place ? (*place - static_cast<int>(position_ % units) + units) % units : units;
}

std::optional<std::size_t> BlockStore::slot_of(int unit) const {
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].unit == unit) return i;
  return std::nullopt;
}

// Where a unit may be read to now: its own slot, an empty one, or that of the unit needed farthest in the future, if later than this one.
std::optional<std::size_t> BlockStore::room_for(int unit) const {
  if (kept_[static_cast<std::size_t>(unit)]) return place_[static_cast<std::size_t>(unit)];
  std::optional<std::size_t> best;
  int farthest = distance(unit);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (!slot.shared) continue;
    if (slot.unit < 0) return i;
    if (slot.pins > 0 || slot.state == State::loading || distance(slot.unit) <= farthest) continue;
    best = i;
    farthest = distance(slot.unit);
  }
  return best;
}

std::optional<BlockStore::Job> BlockStore::next_job() const {
  const auto units = static_cast<std::int64_t>(pass_.size());
  for (std::int64_t use = position_; use < std::min(end_, position_ + units); ++use) {
    const int unit = pass_[static_cast<std::size_t>(use % units)];
    if (slot_of(unit)) continue;
    if (const auto slot = room_for(unit)) return Job{*slot, unit};
    return std::nullopt;  // in the order of use, so that nothing is in the way of the next one
  }
  return std::nullopt;
}

bool BlockStore::all_pinned() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.shared || s.pins > 0; });
}

void BlockStore::load(std::unique_lock<std::mutex>& lock, Job job) {
  Slot& slot = slots_[job.slot];
  slot.unit = job.unit;
  slot.state = State::loading;
  slot.error.reset();
  std::shared_ptr<const void> before = std::exchange(slot.value, nullptr);
  lock.unlock();
  before.reset();
  const double start = monotonic_seconds();
  Result<std::shared_ptr<const void>> loaded = Error{ErrorCode::does_not_fit, "out of memory while reading " + units_.what, "", ""};
  try {
    if (poison_) slot.buffer.fill(0xFF);
    loaded = units_.load(job.unit, slot.buffer, stop_);
  } catch (const std::bad_alloc&) {}
  const double seconds = monotonic_seconds() - start;
  lock.lock();
  facts_.seconds_reading += seconds;
  ++facts_.loads;
  facts_.bytes_read += units_.sizes[static_cast<std::size_t>(job.unit)].slot_bytes;
  slot.state = loaded.ok() ? State::ready : State::failed;
  if (loaded.ok())
    slot.value = std::move(loaded).value();
  else
    slot.error = std::move(loaded).error();
  done_.notify_all();
}

void BlockStore::read_ahead() {
  std::unique_lock lock(mutex_);
  while (!stop_.cancelled()) {
    if (const auto job = next_job())
      load(lock, *job);
    else
      work_.wait(lock);
  }
}

void BlockStore::expect(int passes, std::vector<int> units) {
  {
    const std::lock_guard lock(mutex_);
    pass_ = units.empty() ? all_of(count()) : std::move(units);
    position_ = 0;
    end_ = static_cast<std::int64_t>(passes) * static_cast<std::int64_t>(pass_.size());
  }
  work_.notify_all();
}

// The next use is this one.
void BlockStore::expect_pinned(int unit) {
  if (!place_in_pass(unit)) {
    pass_ = all_of(count());
    position_ = end_ = 0;
  }
  const auto units = static_cast<std::int64_t>(pass_.size());
  position_ = position_ / units * units + *place_in_pass(unit);
  end_ = std::max(end_, position_ + 1);
}

Result<BlockPin> BlockStore::pin(int unit, const CancelToken* cancel) {
  const double start = monotonic_seconds();
  std::unique_lock lock(mutex_);
  expect_pinned(unit);
  for (;;) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("loading"));
    if (const auto index = slot_of(unit)) {
      Slot& slot = slots_[*index];
      if (slot.state == State::failed) {
        slot.unit = -1;
        slot.state = State::empty;
        end_ = position_;  // nothing more is read until somebody asks again
        return *std::exchange(slot.error, std::nullopt);
      }
      if (slot.state == State::ready) {
        ++slot.pins;
        facts_.seconds_waiting += monotonic_seconds() - start;
        work_.notify_all();
        return BlockPin(this, *index, slot.value.get());
      }
    } else if (!kept_[static_cast<std::size_t>(unit)] && all_pinned()) {
      return Error{ErrorCode::failure, fmt::format("all slots for the {} are in use", units_.what), "", ""};
    } else {
      expect_pinned(unit);  // again as long as it is not there: another thread may want another unit
      if (!thread_.joinable()) {
        if (const auto job = next_job()) {
          load(lock, *job);
          continue;
        }
      }
    }
    work_.notify_all();
    done_.wait_for(lock, kCancelPoll);
  }
}

void BlockStore::unpin(std::size_t index) {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[index];
    --slot.pins;
    if (slot.unit == pass_[static_cast<std::size_t>(position_) % pass_.size()]) ++position_;
  }
  work_.notify_all();
}

std::uint64_t BlockStore::give_back(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::uint64_t largest = 0, given = 0;
  for (const BlockUnits::Size& size : units_.sizes) largest = std::max(largest, size.slot_bytes);
  // From the end: those are needed last in the pass that runs.
  for (std::size_t unit = kept_.size(); unit-- > 0 && given < bytes;) {
    if (!kept_[unit]) continue;
    Slot& slot = slots_[place_[unit]];
    if (slot.pins > 0 || slot.state == State::loading) continue;
    if (facts_.slots < kSharedSlots) {  // what is streamed needs slots first
      if (slot.buffer.bytes() < largest) continue;
      slot.shared = true;
      ++facts_.slots;
    } else {
      slot.value.reset();
      slot.unit = -1;
      slot.state = State::empty;
      slot.buffer = DeviceBuffer();
      given += total(units_.sizes[unit]);
    }
    kept_[unit] = false;
    --facts_.kept;
  }
  facts_.resident_bytes -= given;
  return given;
}

BlockStore::Facts BlockStore::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

}  // namespace tritium
