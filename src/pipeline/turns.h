// Which requests of an engine run at the same time.
//
// A request that changes what is loaded runs alone. Those that find everything they need, on several devices, run beside each other: each
// stage takes one request at a time (a transformer split over devices as many as there are pieces), so that one is encoded while another is
// denoised and a third is decoded.
#pragma once

#include "base/cancel.h"

#include <tritium/plan.h>

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <string>

namespace tritium {

// One runs alone, or several share. Those who want to be alone come first, in the order in which they asked.
class Turns {
 public:
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept { *this = std::move(other); }
    Turn& operator=(Turn&& other) noexcept;
    ~Turn() { end(); }
    [[nodiscard]] bool is_alone() const { return turns_ != nullptr && alone_; }
    // Lets others in who share; nobody was there in between.
    void share_from_now_on();

   private:
    friend class Turns;
    Turn(Turns* turns, bool alone) : turns_(turns), alone_(alone) {}
    void end();
    Turns* turns_ = nullptr;
    bool alone_ = false;
  };

  // Error: interrupted.
  Result<Turn> share(const CancelToken* cancel);
  Result<Turn> alone(const CancelToken* cancel);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::uint64_t> waiting_;  // to be alone
  std::uint64_t next_ = 0;
  int sharing_ = 0;
  bool alone_ = false;
};

// At most so many requests in a stage, in the order in which they came.
class StageGates {
 public:
  class Pass {
   public:
    Pass(StageGates* gates, std::string stage) : gates_(gates), stage_(std::move(stage)) {}
    Pass(Pass&& other) noexcept : gates_(std::exchange(other.gates_, nullptr)), stage_(std::move(other.stage_)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass();

   private:
    StageGates* gates_;
    std::string stage_;
  };
  // Error: interrupted.
  Result<Pass> enter(const std::string& stage, int width, const CancelToken* cancel);

 private:
  struct Stage {
    std::list<std::uint64_t> waiting;
    int inside = 0;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Stage> stages_;
  std::uint64_t next_ = 0;
};

// Requests that a stage takes at a time.
int stage_width(const Plan& plan, const std::string& stage);

// Whether requests planned like this gain from running beside each other, and there is memory for three: nothing leaves or is streamed, and
// the stages are on different devices.
bool may_overlap(const Plan& plan);

}  // namespace tritium
