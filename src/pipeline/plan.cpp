#include "pipeline/plan.h"

#include "base/try.h"
#include "model/dit/packing.h"
#include "model/geometry/canvas.h"
#include "model/geometry/clip_length.h"
#include "pipeline/acceleration.h"
#include "pipeline/noise_mode.h"
#include "pipeline/parts.h"
#include "pipeline/shape.h"
#include "sampler/schedule.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

// An H.264 file at the quality used is far below this many bytes per pixel, even for noise.
constexpr double kOutputBytesPerPixel = 0.35;

// The rules for text are the tokenizer's. A zero byte cannot be stored in the video's tags and always means a file of another kind.
Result<void> check_prompt(const std::string& prompt) {
  const std::size_t zero = prompt.find('\0');
  if (zero == std::string::npos) return {};
  return Error{ErrorCode::usage, fmt::format("the text holds a zero byte at offset {}", zero), "prompt", "save the prompt as UTF-8 text"};
}

Result<void> decide_schedule(const Request& request, const ModelDefaults& defaults, Plan& plan) {
  const std::int64_t steps = request.steps.value_or(defaults.steps);
  if (steps < 1 || steps > kMaxSteps)
    return Error{ErrorCode::usage, fmt::format("{} is out of range; allowed are 1 to {}", steps, kMaxSteps), "steps",
                 fmt::format("the nearest valid value is {}", steps < 1 ? 1 : kMaxSteps)};
  plan.steps = static_cast<int>(steps);
  plan.video_shift = request.video_shift.value_or(defaults.video_shift);
  plan.audio_shift = request.audio_shift.value_or(defaults.audio_shift);
  const auto schedule = [&](double shift, const char* field) -> Result<Schedule> {
    auto made = make_schedule(plan.steps, shift);
    if (!made.ok()) return Error{made.error().code, made.error().message, field, made.error().hint};
    return made;
  };
  TRITIUM_TRY_ASSIGN(Schedule video, schedule(plan.video_shift, "video_shift"));
  TRITIUM_TRY_ASSIGN(Schedule audio, schedule(plan.audio_shift, "audio_shift"));
  plan.video_sigmas = std::move(video.sigmas);
  plan.audio_sigmas = std::move(audio.sigmas);
  plan.noise = request.noise;
  return noise_mode_from_name(request.noise).ok() ? Result<void>{} : Result<void>(noise_mode_from_name(request.noise).error());
}

void warn_outside(Plan& plan, const char* what, int value, const std::array<int, 2>& range) {
  if (value < range[0] || value > range[1])
    plan.warnings.push_back(range[0] == range[1]
                                ? fmt::format("{} {}: the model was trained on {}", what, value, range[0])
                                : fmt::format("{} {}: the model was trained on {} to {}", what, value, range[0], range[1]));
}

// Shapes that follow from the decided values.
Result<void> derive(const PlanInputs& in, Plan& plan) {
  plan.latent_channels = static_cast<int>(in.dit.video_features / (kPatch * kPatch));
  plan.latent_height = plan.height / kPixelsPerLatent;
  plan.latent_width = plan.width / kPixelsPerLatent;
  plan.audio_dim = static_cast<int>(in.dit.audio_features);
  plan.samples = std::int64_t{plan.audio_latents} * in.audio_vae.samples_per_latent();
  plan.text_tokens = in.text_tokens;
  const VideoLatentShape video{plan.latent_channels, plan.latent_frames, plan.latent_height, plan.latent_width};
  plan.condition_rows = in.condition_rows;
  const std::int64_t rows = plan.text_tokens + plan.condition_rows + 2 * std::int64_t{plan.audio_latents} + video.rows();
  if (rows > (std::int64_t{1} << 31) - 1)
    return Error{ErrorCode::does_not_fit,
                 fmt::format("{}x{} with {} frames gives {} rows, more than can be indexed", plan.width, plan.height, plan.frames, rows),
                 "", "choose a smaller size or fewer frames"};
  plan.rows = rows;
  return {};
}

// Parts as one piece each, where nothing is known about their blocks.
ModelShape undivided_shape(const PlanInputs& in) {
  const auto whole = [](const PlanInputs::Weights& weights) {
    return PartShape{precision_name(weights.precision), {}, {weights.bytes, weights.bytes}, 0, weights.product};
  };
  return {{},
          whole(in.input_weights),
          whole(in.text_weights),
          whole(in.dit_weights),
          whole(in.video_weights),
          whole(in.audio_weights),
          in.text,
          in.dit,
          in.video_vae,
          in.audio_vae,
          nullptr};
}

// A machine of one device, with what is known about it.
Machine machine_of(const PlanInputs& in) {
  if (in.machine) return *in.machine;
  const std::uint64_t budget = in.available_bytes > 0 ? in.available_bytes : std::uint64_t{1} << 60;
  Machine machine;
  machine.devices.push_back({in.device, 0, true, 1, 0});
  machine.host_budget = budget;
  machine.disk_bandwidth = 1;
  return machine;
}

Result<void> add_stages(const PlanInputs& in, Plan& plan) {
  const RequestShape request{plan.width,
                             plan.height,
                             plan.frames,
                             plan.steps,
                             plan.text_tokens,
                             in.condition_rows,
                             in.input_flops,
                             in.input_working_bytes,
                             in.mode != Mode::t2va,
                             accelerated_shape(plan)};
  const Machine machine = machine_of(in);
  const ModelShape model = in.shape ? *in.shape : undivided_shape(in);
  TRITIUM_TRY_ASSIGN(MemoryPlan memory, plan_memory(model, request, machine, {}, in.alternatives));
  plan.stages = std::move(memory.stages);
  plan.memories = std::move(memory.memories);
  plan.expected_seconds = memory.seconds;
  plan.peak_bytes = plan.memories.back().peak_bytes;  // of the host
  plan.available_bytes = in.available_bytes;
  const double pixels = static_cast<double>(plan.width) * plan.height * plan.frames;
  plan.output_bytes = static_cast<std::uint64_t>(kOutputBytesPerPixel * pixels + 32000 * plan.seconds()) + (1u << 16);
  return {};
}

}  // namespace

Result<StageWeights> stage_weights(const ModelInfo& model, const std::string& compute) {
  StageWeights out;
  TRITIUM_TRY_ASSIGN(out.text, part_weights(model, Part::text, compute));
  TRITIUM_TRY_ASSIGN(out.dit, part_weights(model, Part::dit, compute));
  TRITIUM_TRY_ASSIGN(out.video, part_weights(model, Part::video_decoder, compute));
  TRITIUM_TRY_ASSIGN(out.audio, part_weights(model, Part::audio_decoder, compute));
  return out;
}

Result<Plan> make_plan(const Request& request, const PlanInputs& in, std::uint64_t random_seed) {
  Plan plan;
  TRITIUM_TRY(check_prompt(request.prompt));
  plan.prompt = request.prompt;
  plan.mode = mode_name(in.mode);
  TRITIUM_TRY(decide_size(request, in.defaults, in.picture, plan));
  TRITIUM_TRY(decide_length(request, in.defaults, in.clip_frames, plan));
  TRITIUM_TRY(decide_schedule(request, in.defaults, plan));
  TRITIUM_TRY(decide_acceleration(request, in.dit.layers, plan));
  plan.seed = request.seed.value_or(random_seed);
  if (plan.seed > 0xFFFFFFFFu)
    plan.warnings.push_back(fmt::format("seed {}: only the low 32 bits count ({})", plan.seed, plan.seed & 0xFFFFFFFFu));
  warn_outside(plan, "frames", plan.frames, in.defaults.trained_frames);
  warn_outside(plan, "width", plan.width, in.defaults.trained_width);
  warn_outside(plan, "height", plan.height, in.defaults.trained_height);
  TRITIUM_TRY(derive(in, plan));
  warn_of_useless_draft(in.video_vae, plan);
  TRITIUM_TRY(add_stages(in, plan));
  return plan;
}

}  // namespace tritium
