// How long a request takes on a machine: the operations of its stages (cost.h) at measured speeds. Pure functions. Memory is not looked at:
// whether a request fits, and what streaming costs, is the plan's business.
#pragma once

#include "doctor/speeds.h"
#include "pipeline/cost.h"

namespace tritium {

// A model as far as its time is concerned.
struct TimedModel {
  enum class Matrices { f32, bf16, int8 };  // as they are kept; other quantized formats count as int8
  struct Part {
    Matrices matrices = Matrices::bf16;
    std::uint64_t bytes = 0;  // to be read once; 0: not counted
  };
  std::string name;
  TextConfig text;
  DitConfig dit;
  video_vae::VideoVaeConfig video_vae;
  audio_vae::AudioVaeConfig audio_vae;
  Part text_part, dit_part, video_part, audio_part;
};

// Of a model on disk. Error: model.
Result<TimedModel> timed_model(const ModelInfo& model, const std::string& compute);
// The released model with all matrices in bfloat16, or as int8 and pruned (spec/dit.md §1, §3).
std::vector<TimedModel> released_timed_models();

struct TimedRequest {
  int width = 0, height = 0, frames = 0, steps = 0;
  int text_tokens = 300;
};

struct StageTime {
  std::string name;  // "text", "denoise", "video", "audio"
  double flops = 0, attention_flops = 0;
  double read_seconds = 0, compute_seconds = 0;
};

struct TimeEstimate {
  std::string model;
  TimedRequest request;
  std::int64_t rows = 0;
  std::vector<StageTime> stages;
  double read_seconds = 0, compute_seconds = 0;  // reading happens once, however many requests follow
};

// Nothing where a speed that it takes was not measured. Error usage: a length or size that cannot be.
Result<std::optional<TimeEstimate>> estimate_time(const TimedModel& model, const TimedRequest& request, const MeasuredSpeeds& speeds);

// The usual sizes with 8 and 30 steps: 832x480 and 1344x768 with 124 frames, 1344x768 with 362.
std::vector<TimedRequest> usual_requests();

}  // namespace tritium
