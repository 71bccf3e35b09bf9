#include "pipeline/plan.h"

#include "base/system.h"
#include "base/try.h"
#include "model/audio_vae/decoder.h"
#include "model/dit/packing.h"
#include "model/dit/weights.h"
#include "model/geometry/canvas.h"
#include "model/geometry/clip_length.h"
#include "model/text/text_model.h"
#include "model/video_vae/decoder.h"
#include "pipeline/cost.h"
#include "pipeline/noise_mode.h"
#include "pipeline/parts.h"
#include "pipeline/shape.h"
#include "sampler/schedule.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

// Memory of the process besides weights and activations: libraries, tokenizer, encoder.
constexpr std::uint64_t kBaseBytes = std::uint64_t{128} << 20;
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

void add_stages(const PlanInputs& in, Plan& plan) {
  const auto stage = [&](const char* name, const PlanInputs::Weights& weights, const StageCost& cost) {
    plan.stages.push_back(
        {name, in.device, weights.precision == MatrixPrecision::bf16 ? "bf16" : "f32", weights.bytes, cost.working_bytes, cost.flops});
  };
  if (in.mode != Mode::t2va) stage("inputs", in.input_weights, {in.input_flops, in.input_working_bytes});
  stage("text", in.text_weights, text_cost(in.text, plan.text_tokens));
  stage("denoise", in.dit_weights,
        denoise_cost(in.dit, plan.rows, plan.text_tokens, plan.rows - plan.text_tokens - plan.condition_rows, plan.steps));
  stage("video", in.video_weights, video_decode_cost(in.video_vae, plan.latent_frames, plan.latent_height, plan.latent_width));
  stage("audio", in.audio_weights, audio_decode_cost(in.audio_vae, plan.audio_latents));
  std::uint64_t working = 0;
  plan.peak_bytes = kBaseBytes;
  for (const StagePlan& each : plan.stages) {
    plan.peak_bytes += each.weight_bytes;
    working = std::max(working, each.working_bytes);
  }
  // The finished pictures and sound stay in memory until they have been looked at.
  const double pixels = static_cast<double>(plan.width) * plan.height * plan.frames;
  plan.peak_bytes += working + static_cast<std::uint64_t>(3 * pixels) + 8 * static_cast<std::uint64_t>(plan.samples);
  plan.output_bytes = static_cast<std::uint64_t>(kOutputBytesPerPixel * pixels + 32000 * plan.seconds()) + (1u << 16);
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
  plan.seed = request.seed.value_or(random_seed);
  if (plan.seed > 0xFFFFFFFFu)
    plan.warnings.push_back(fmt::format("seed {}: only the low 32 bits count ({})", plan.seed, plan.seed & 0xFFFFFFFFu));
  warn_outside(plan, "frames", plan.frames, in.defaults.trained_frames);
  warn_outside(plan, "width", plan.width, in.defaults.trained_width);
  warn_outside(plan, "height", plan.height, in.defaults.trained_height);
  TRITIUM_TRY(derive(in, plan));
  add_stages(in, plan);
  plan.available_bytes = in.available_bytes;
  if (in.available_bytes > 0 && plan.peak_bytes > in.available_bytes)
    return Error{ErrorCode::does_not_fit,
                 fmt::format("{}x{} with {} frames needs about {} of memory, {} is available", plan.width, plan.height, plan.frames,
                             format_bytes(plan.peak_bytes), format_bytes(in.available_bytes)),
                 "", "choose a smaller size or fewer frames, or close other programs"};
  return plan;
}

}  // namespace tritium
