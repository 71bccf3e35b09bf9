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
#include "sampler/schedule.h"

#include <algorithm>
#include <fmt/format.h>

namespace tritium {
namespace {

// "auto": float32 matrices while a stage's weights stay below this, bfloat16 above.
constexpr std::uint64_t kAutoFloatBytes = std::uint64_t{1} << 30;
// Memory of the process besides weights and activations: libraries, tokenizer, encoder.
constexpr std::uint64_t kBaseBytes = std::uint64_t{128} << 20;
// An H.264 file at the quality used is far below this many bytes per pixel, even for noise.
constexpr double kOutputBytesPerPixel = 0.35;

void adjust(Plan& plan, const char* field, std::int64_t from, std::int64_t to, const char* reason) {
  if (from != to) plan.adjustments.push_back({field, std::to_string(from), std::to_string(to), reason});
}

Result<void> decide_size(const Request& request, const ModelDefaults& defaults, Plan& plan) {
  const std::int64_t width = request.width.value_or(defaults.width), height = request.height.value_or(defaults.height);
  TRITIUM_TRY_ASSIGN(const Size size, snap_size_up(width, height));
  adjust(plan, "width", width, size.width, "sizes are multiples of 32");
  adjust(plan, "height", height, size.height, "sizes are multiples of 32");
  plan.width = size.width;
  plan.height = size.height;
  return {};
}

Result<void> decide_length(const Request& request, const ModelDefaults& defaults, Plan& plan) {
  if (request.frames && request.seconds) return Error{ErrorCode::usage, "given together with seconds; they say the same thing", "frames", "give one of them"};
  const auto length = request.seconds ? clip_length_from_seconds(*request.seconds) : clip_length_from_frames(request.frames.value_or(defaults.frames));
  if (!length.ok()) return length.error();
  if (request.seconds) {
    if (std::abs(*request.seconds - length->seconds()) > 1e-4)
      plan.adjustments.push_back({"seconds", fmt::format("{:g}", *request.seconds), fmt::format("{:.5g}", length->seconds()), "clips have 17n+5 frames at 24 per second"});
  } else {
    adjust(plan, "frames", request.frames.value_or(defaults.frames), length->frames, "clips have 17n+5 frames");
  }
  plan.frames = length->frames;
  plan.latent_frames = length->video_latents;
  plan.audio_latents = length->audio_latents;
  return {};
}

Result<void> decide_schedule(const Request& request, const ModelDefaults& defaults, Plan& plan) {
  const std::int64_t steps = request.steps.value_or(defaults.steps);
  if (steps < 1 || steps > kMaxSteps)
    return Error{ErrorCode::usage, fmt::format("{} is out of range; allowed are 1 to {}", steps, kMaxSteps), "steps", fmt::format("the nearest valid value is {}", steps < 1 ? 1 : kMaxSteps)};
  plan.steps = static_cast<int>(steps);
  plan.video_shift = request.video_shift.value_or(defaults.video_shift);
  plan.audio_shift = request.audio_shift.value_or(defaults.audio_shift);
  TRITIUM_TRY_ASSIGN(Schedule video, make_schedule(plan.steps, plan.video_shift));
  TRITIUM_TRY_ASSIGN(Schedule audio, make_schedule(plan.steps, plan.audio_shift));
  plan.video_sigmas = std::move(video.sigmas);
  plan.audio_sigmas = std::move(audio.sigmas);
  plan.noise = request.noise;
  return noise_mode_from_name(request.noise).ok() ? Result<void>{} : Result<void>(noise_mode_from_name(request.noise).error());
}

void warn_outside(Plan& plan, const char* what, int value, const std::array<int, 2>& range) {
  if (value < range[0] || value > range[1])
    plan.warnings.push_back(range[0] == range[1] ? fmt::format("{} {}: the model was trained on {}", what, value, range[0])
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
  const std::int64_t rows = plan.text_tokens + 2 * std::int64_t{plan.audio_latents} + video.rows();
  if (rows > (std::int64_t{1} << 31) - 1)
    return Error{ErrorCode::does_not_fit, fmt::format("{}x{} with {} frames gives {} rows, more than can be indexed", plan.width, plan.height, plan.frames, rows), "", "choose a smaller size or fewer frames"};
  plan.rows = rows;
  return {};
}

void add_stages(const PlanInputs& in, Plan& plan) {
  const auto stage = [&](const char* name, const PlanInputs::Weights& weights, const StageCost& cost) {
    plan.stages.push_back({name, in.device, weights.precision == MatrixPrecision::bf16 ? "bf16" : "f32", weights.bytes, cost.working_bytes, cost.flops});
  };
  stage("text", in.text_weights, text_cost(in.text, plan.text_tokens));
  stage("denoise", in.dit_weights, denoise_cost(in.dit, plan.rows, plan.text_tokens, plan.rows - plan.text_tokens, plan.steps));
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
  if (compute != "auto" && compute != "f32" && compute != "bf16")
    return Error{ErrorCode::usage, fmt::format("'{}' is not one of auto, f32, bf16", compute), "compute", ""};
  const auto decide = [&](auto bytes_of) -> Result<PlanInputs::Weights> {
    TRITIUM_TRY_ASSIGN(const std::uint64_t wide, bytes_of(MatrixPrecision::f32));
    if (compute == "f32" || (compute == "auto" && wide <= kAutoFloatBytes)) return PlanInputs::Weights{wide, MatrixPrecision::f32};
    TRITIUM_TRY_ASSIGN(const std::uint64_t narrow, bytes_of(MatrixPrecision::bf16));
    return PlanInputs::Weights{narrow, narrow < wide ? MatrixPrecision::bf16 : MatrixPrecision::f32};
  };
  StageWeights out;
  TRITIUM_TRY_ASSIGN(out.text, decide([&](MatrixPrecision p) { return TextModel::weight_bytes(*model.text, model.text_config, p); }));
  TRITIUM_TRY_ASSIGN(out.dit, decide([&](MatrixPrecision p) { return dit_weight_bytes(*model.dit, model.dit_layout, model.dit_config, p); }));
  TRITIUM_TRY_ASSIGN(out.video, decide([&](MatrixPrecision p) { return video_vae::VideoDecoder::check(*model.video_vae, model.video_vae_config, p); }));
  TRITIUM_TRY_ASSIGN(const std::uint64_t audio, audio_vae::AudioDecoder::check(*model.audio_vae, model.audio_vae_config));
  out.audio = {audio, MatrixPrecision::f32};
  return out;
}

Result<Plan> make_plan(const Request& request, const PlanInputs& in, std::uint64_t random_seed) {
  Plan plan;
  plan.prompt = request.prompt;
  TRITIUM_TRY(decide_size(request, in.defaults, plan));
  TRITIUM_TRY(decide_length(request, in.defaults, plan));
  TRITIUM_TRY(decide_schedule(request, in.defaults, plan));
  plan.seed = request.seed.value_or(random_seed);
  if (plan.seed > 0xFFFFFFFFu) plan.warnings.push_back(fmt::format("seed {}: only the low 32 bits count ({})", plan.seed, plan.seed & 0xFFFFFFFFu));
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
