#include "pipeline/turns.h"

#include "base/try.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace tritium {
namespace {

constexpr auto kCancelPoll = std::chrono::milliseconds(20);
constexpr int kTogether = 3;  // encoding, denoising, decoding

template <class Condition>
Result<void> wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, const CancelToken* cancel, Condition there) {
  while (!there()) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("waiting"));
    changed.wait_for(lock, kCancelPoll);
  }
  return {};
}

}  // namespace

Turns::Turn& Turns::Turn::operator=(Turn&& other) noexcept {
  if (this == &other) return *this;
  end();
  turns_ = std::exchange(other.turns_, nullptr);
  alone_ = other.alone_;
  return *this;
}

void Turns::Turn::end() {
  if (turns_ == nullptr) return;
  Turns& turns = *std::exchange(turns_, nullptr);
  {
    const std::lock_guard lock(turns.mutex_);
    if (alone_)
      turns.alone_ = false;
    else
      --turns.sharing_;
  }
  turns.changed_.notify_all();
}

void Turns::Turn::share_from_now_on() {
  if (!is_alone()) return;
  {
    const std::lock_guard lock(turns_->mutex_);
    turns_->alone_ = false;
    ++turns_->sharing_;
  }
  alone_ = false;
  turns_->changed_.notify_all();
}

Result<Turns::Turn> Turns::share(const CancelToken* cancel) {
  std::unique_lock lock(mutex_);
  TRITIUM_TRY(wait_until(changed_, lock, cancel, [this] { return !alone_ && waiting_.empty(); }));
  ++sharing_;
  return Turn(this, false);
}

Result<Turns::Turn> Turns::alone(const CancelToken* cancel) {
  std::unique_lock lock(mutex_);
  const auto place = waiting_.insert(waiting_.end(), next_++);
  const auto waited = wait_until(changed_, lock, cancel, [&] { return !alone_ && sharing_ == 0 && waiting_.begin() == place; });
  waiting_.erase(place);
  if (!waited.ok()) {
    changed_.notify_all();
    return waited.error();
  }
  alone_ = true;
  return Turn(this, true);
}

StageGates::Pass::~Pass() {
  if (gates_ == nullptr) return;
  {
    const std::lock_guard lock(gates_->mutex_);
    --gates_->stages_[stage_].inside;
  }
  gates_->changed_.notify_all();
}

Result<StageGates::Pass> StageGates::enter(const std::string& name, int width, const CancelToken* cancel) {
  std::unique_lock lock(mutex_);
  Stage& stage = stages_[name];
  const auto place = stage.waiting.insert(stage.waiting.end(), next_++);
  const auto waited = wait_until(changed_, lock, cancel, [&] { return stage.waiting.begin() == place && stage.inside < width; });
  stage.waiting.erase(place);
  if (waited.ok()) ++stage.inside;
  changed_.notify_all();
  if (!waited.ok()) return waited.error();
  return Pass(this, name);
}

int stage_width(const Plan& plan, const std::string& stage) {
  const auto found = std::find_if(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& s) { return s.name == stage; });
  return found == plan.stages.end() ? 1 : std::max<int>(1, static_cast<int>(found->shares.size()));
}

bool may_overlap(const Plan& plan) {
  std::set<std::string> devices;
  std::uint64_t others = 0;
  for (const StagePlan& stage : plan.stages) {
    if (!stage.stays || stage.transfer_bytes > 0) return false;
    for (const DeviceShare& share : stage.shares) {
      devices.insert(share.device);
      others = std::max(others, share.working_bytes + stage.host_bytes);
    }
  }
  const auto room = [others](const MemoryPeak& m) { return m.peak_bytes + (kTogether - 1) * others <= m.budget_bytes; };
  return devices.size() > 1 && std::all_of(plan.memories.begin(), plan.memories.end(), room);
}

}  // namespace tritium
