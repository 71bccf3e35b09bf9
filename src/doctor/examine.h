// Running checks on a device and saying what their results mean.
#pragma once

#include "base/cancel.h"
#include "doctor/probe.h"

namespace tritium::doctor {

enum class Verdict {
  ok,        // right, and computed the way it should be
  refused,   // right, but something else is used instead: the note says what
  failed,    // wrong, or it could not run
  left_out,  // not looked at: the note says why
};
const char* verdict_name(Verdict verdict);  // "ok", "refused", "failed", "left out"

struct Outcome {
  Verdict verdict = Verdict::ok;
  double error = 0, tolerance = 0;  // the worst, see Comparison; 0 where nothing was compared
  double seconds = 0;
  std::string note;
};

// How a check went, apart from its numbers.
struct Circumstances {
  bool wanted_kernel = false, used_kernel = false;  // of the CPU's own
  std::set<std::string> elsewhere;                  // operations that the CPU did in place of the device
};
Outcome judge(const Result<Comparison>& result, const Circumstances& circumstances);

struct ProbeResult {
  std::string operation, what;
  std::string path;  // of a CPU: "kernels" or "plain"; else empty
  Outcome outcome;
};

struct ExamineOptions {
  bool thorough = false;
  double seconds = 0;  // checks that have not begun by then are left out; 0: no limit
  Operations operations;
  // Called before a check with its number, and after it with its result too.
  std::function<void(int number, int of, const Probe& probe, const ProbeResult* result)> progress;
  const CancelToken* cancel = nullptr;
};

// Every check, and again without the hand-written kernels where these are wrong or there are none (when thorough: always).
// Error: interrupted.
Result<std::vector<ProbeResult>> examine(Device& device, const std::vector<Probe>& probes, const ExamineOptions& options);

// What to do about results, a line each; empty if all is well.
std::vector<std::string> advice(const std::vector<ProbeResult>& results, const std::string& device);

// Nothing failed.
bool usable(const std::vector<ProbeResult>& results);

}  // namespace tritium::doctor
