// How long a request takes on a device: the operations of its stages (cost.h) at measured speeds, attention at a speed of its own. Pure
// functions. Memory is not looked at: whether a request fits, and what streaming costs, is the plan's business.
#pragma once

#include "doctor/speeds.h"
#include "pipeline/memory_plan.h"

namespace tritium {

struct StageTime {
  std::string name;  // "text", "denoise", "video", "audio"
  double flops = 0, attention_flops = 0;
  double read_seconds = 0, compute_seconds = 0;
};

struct TimeEstimate {
  std::string model;
  RequestShape request;
  std::int64_t rows = 0;
  std::vector<StageTime> stages;
  double read_seconds = 0, compute_seconds = 0;  // reading happens once, however many requests follow
};

// For a request without pictures, videos and sounds. Nothing where a speed that it takes was not measured. Errors (usage): a length or size
// that cannot be.
Result<std::optional<TimeEstimate>> estimate_time(const ModelShape& model, const RequestShape& request, const MeasuredSpeeds& speeds);

// The usual sizes with 8 and 30 steps and 300 tokens of text: 832x480 and 1344x768 with 124 frames, 1344x768 with 362.
std::vector<RequestShape> usual_requests();

}  // namespace tritium
