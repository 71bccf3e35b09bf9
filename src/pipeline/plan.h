// From a request to a plan: pure functions of the request, the model's configuration and the machine (no weights, no files).
#pragma once

#include "device/params.h"
#include "doctor/speeds.h"
#include "model/geometry/canvas.h"
#include "pipeline/model_info.h"
#include "pipeline/modes.h"

#include <tritium/plan.h>
#include <functional>
#include <memory>
#include <optional>

namespace tritium {

struct Machine;
struct MemoryAlternatives;
struct ModelShape;

struct PlanInputs {
  ModelDefaults defaults;
  TextConfig text;
  DitConfig dit;
  video_vae::VideoVaeConfig video_vae;
  audio_vae::AudioVaeConfig audio_vae;
  // Weights of the stages text, denoise, video, audio when kept on the device.
  struct Weights {
    std::uint64_t bytes = 0;
    MatrixPrecision precision = MatrixPrecision::f32;
    std::vector<std::uint64_t> blocks;  // of each; empty where they are not known one by one
    ProductKind product = ProductKind::f32;
  };
  Weights text_weights, dit_weights, video_weights, audio_weights;
  std::string device = "CPU";
  std::uint64_t available_bytes = 0;  // host memory free now; 0: unknown, nothing is refused
  int text_tokens = 0;                // of the prompt, labels and pictures in it included

  // Inputs besides the prompt, as open_inputs() and the encoders see them.
  Mode mode = Mode::t2va;
  std::optional<Size> picture;      // shape for the canvas
  std::optional<int> clip_frames;   // length of a given clip or sound
  std::int64_t condition_rows = 0;  // of keyframes or references
  Weights input_weights;            // of the encoders that are needed
  double input_flops = 0;
  std::uint64_t input_working_bytes = 0;

  // For the memory plan (memory_plan.h); without them a device computing in the available host memory, and parts in one piece.
  std::shared_ptr<const ModelShape> shape;
  std::shared_ptr<const Machine> machine;
  std::function<MemoryAlternatives()> alternatives;  // asked where a request does not fit
};

// Weights on the device for a matrix precision "auto", "f32" or "bf16", after checking every name and shape of the model.
struct StageWeights {
  PlanInputs::Weights text, dit, video, audio;
};
Result<StageWeights> stage_weights(const ModelInfo& model, const std::string& compute);

// Defaults filled, sizes and lengths snapped up (each change recorded), everything derived. `random_seed` is used when the request
// has none. Errors: usage naming field, value, range and the nearest valid value; does_not_fit naming need and have.
Result<Plan> make_plan(const Request& request, const PlanInputs& inputs, std::uint64_t random_seed);

}  // namespace tritium
