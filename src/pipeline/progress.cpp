#include "pipeline/progress.h"

#include "base/system.h"
#include "device/abort_report.h"

namespace tritium {

ProgressTracker::ProgressTracker(std::vector<Stage> stages, ProgressCallback callback)
    : stages_(std::move(stages)), callback_(std::move(callback)), start_(monotonic_seconds()) {
  for (const Stage& stage : stages_) total_weight_ += stage.weight;
}

ProgressTracker::~ProgressTracker() { note_stage("", 0, 0); }

void ProgressTracker::close_current() {
  if (!started_) return;
  timings_.push_back({stages_[current_].name, monotonic_seconds() - stage_start_});
  done_weight_ += stages_[current_].weight;
  ++current_;
}

void ProgressTracker::begin(const std::string& stage) {
  close_current();
  while (current_ < stages_.size() && stages_[current_].name != stage) done_weight_ += stages_[current_++].weight;
  started_ = current_ < stages_.size();
  stage_start_ = monotonic_seconds();
  report(0, 0);
}

void ProgressTracker::report(int step, int of) {
  if (!started_) return;
  note_stage(stages_[current_].name, step, of);
  if (!callback_) return;
  const double within = of > 0 ? static_cast<double>(step) / of : 0.0;
  const double fraction = total_weight_ > 0 ? (done_weight_ + within * stages_[current_].weight) / total_weight_ : 0.0;
  const double elapsed = monotonic_seconds() - start_;
  // The first hundredth says nothing about the rest.
  const double eta = fraction > 0.01 ? elapsed * (1 - fraction) / fraction : -1;
  callback_({stages_[current_].name, step, of, fraction, eta});
}

void ProgressTracker::finish() {
  close_current();
  started_ = false;
}

}  // namespace tritium
