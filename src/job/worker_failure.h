// What the caller is told when a worker process does not give an answer.
#pragma once

#include "job/worker_process.h"

#include <tritium/engine.h>

namespace tritium {

// How far it had come.
struct WorkerMoment {
  std::string doing;              // without progress: "starting", "opening the model", "planning"
  std::optional<Progress> last;   // the last it reported
  std::vector<StagePlan> stages;  // as planned, which tells where each runs

  // "while opening the model", "in stage denoise on Vulkan0, step 12 of 100"
  [[nodiscard]] std::string text() const;
};

// The last lines of `words` on one line, without what terminals would act upon; empty if there are none.
std::string last_lines(const std::string& words);

// It ended by itself, or, without `ending`, closed the stream and lives on. The code is `model` or does_not_fit if it ended
// with that status, as it does when a weight file is cut short in use; does_not_fit when it was killed, which is what a system that is out
// of memory does; device otherwise.
Error worker_died(const std::optional<Ending>& ending, const WorkerMoment& moment, const std::string& words);

// It was ended because it reported nothing for `seconds`.
Error worker_stalled(double seconds, const WorkerMoment& moment, const std::string& words);

// It was ended because what it sent could not be understood.
Error worker_confused(const Error& problem, const WorkerMoment& moment, const std::string& words);

// It was ended because it did not stop when it was cancelled, or it ended by itself after that.
Error worker_interrupted(const WorkerMoment& moment);

}  // namespace tritium
