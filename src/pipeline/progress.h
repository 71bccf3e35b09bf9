// Progress of a request over its stages, weighted by their operations.
#pragma once

#include <tritium/engine.h>

#include <string>
#include <vector>

namespace tritium {

class ProgressTracker {
 public:
  // One weight per stage in the order they run, in any unit of expected time.
  struct Stage {
    std::string name;
    double weight = 1;
  };
  ProgressTracker(std::vector<Stage> stages, ProgressCallback callback);
  ProgressTracker(const ProgressTracker&) = delete;
  ProgressTracker& operator=(const ProgressTracker&) = delete;
  ~ProgressTracker();

  // Starts the next stage of this name; earlier ones count as done. Ends the previous stage's timing.
  void begin(const std::string& stage);
  void report(int step, int of);
  // Ends the last stage; the timings are complete afterwards.
  void finish();
  [[nodiscard]] const std::vector<StageTiming>& timings() const { return timings_; }

 private:
  void close_current();
  std::vector<Stage> stages_;
  ProgressCallback callback_;
  std::size_t current_ = 0;
  bool started_ = false;
  double start_ = 0, stage_start_ = 0, total_weight_ = 0, done_weight_ = 0;
  std::vector<StageTiming> timings_;
};

}  // namespace tritium
