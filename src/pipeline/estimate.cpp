#include "pipeline/estimate.h"

#include "base/try.h"
#include "model/geometry/canvas.h"
#include "model/geometry/clip_length.h"
#include "model/geometry/patchify.h"
#include "pipeline/parts.h"
#include "pipeline/released_model.h"

namespace tritium {
namespace {

using Matrices = TimedModel::Matrices;

// Of a part of a model on disk: what its largest matrices are kept as.
Result<TimedModel::Part> timed_part(const ModelInfo& model, Part part, const WeightPart& weights, const std::string& compute) {
  TRITIUM_TRY_ASSIGN(const PlanInputs::Weights kept, part_weights(model, part, compute));
  TimedModel::Part out;
  out.bytes = kept.bytes;
  std::uint64_t quantized = 0, all = 0;
  for (const auto& [name, tensor] : weights.tensors().all()) {
    all += tensor.bytes;
    if (tensor.quant || is_block_dtype(tensor.stored->dtype)) quantized += tensor.bytes;
  }
  out.matrices = 2 * quantized > all ? Matrices::int8 : kept.precision == MatrixPrecision::bf16 ? Matrices::bf16 : Matrices::f32;
  return out;
}

DitConfig released_dit(bool pruned) {
  DitConfig c;
  c.hidden = 5376;
  c.heads = 56;
  c.head_dim = 128;
  c.ffn = 14336;
  c.text_dim = 5120;
  c.video_features = 96;
  c.audio_features = 32;
  c.time_dim = pruned ? 8 : 2688;
  c.layers = 50;
  c.refiner_layers = 2;
  return c;
}

TimedModel released_timed_model(const char* name, Matrices matrices, bool pruned) {
  TimedModel out;
  out.name = name;
  out.text = parse_text_config(released_text_config()).value();
  out.dit = released_dit(pruned);
  out.video_vae = video_vae::VideoVaeConfig::parse(released_video_vae_config(), released_video_vae_source()).value();
  out.audio_vae = audio_vae::AudioVaeConfig::parse(released_audio_vae_config()).value();
  const std::uint64_t each = matrices == Matrices::int8 ? 1 : 2;
  const DitConfig& d = out.dit;
  const std::int64_t block = d.hidden * (4 * d.inner() + 3 * d.ffn);
  out.dit_part = {matrices,
                  each * static_cast<std::uint64_t>((d.layers + d.refiner_layers) * block + d.layers * 18 * d.hidden * d.time_dim)};
  const TextConfig& t = out.text;
  const std::int64_t layer = t.hidden * (2 * (t.heads + t.kv_heads) * t.head_dim + 3 * t.ffn);
  out.text_part = {matrices, each * static_cast<std::uint64_t>(t.layers * layer)};
  out.video_part = out.audio_part = {Matrices::f32, 0};  // small beside the others
  return out;
}

double product_speed(Matrices matrices, const MeasuredSpeeds& speeds) {
  switch (matrices) {
    case Matrices::f32:
      return speeds.f32;
    case Matrices::bf16:
      return speeds.bf16;
    case Matrices::int8:
      return speeds.int8;
  }
  return 0;
}

}  // namespace

Result<TimedModel> timed_model(const ModelInfo& model, const std::string& compute) {
  TimedModel out;
  out.name = model.name;
  out.text = model.text_config;
  out.dit = model.dit_config;
  out.video_vae = model.video_vae_config;
  out.audio_vae = model.audio_vae_config;
  TRITIUM_TRY_ASSIGN(out.text_part, timed_part(model, Part::text, *model.text, compute));
  TRITIUM_TRY_ASSIGN(out.dit_part, timed_part(model, Part::dit, *model.dit, compute));
  TRITIUM_TRY_ASSIGN(out.video_part, timed_part(model, Part::video_decoder, *model.video_vae, compute));
  TRITIUM_TRY_ASSIGN(out.audio_part, timed_part(model, Part::audio_decoder, *model.audio_vae, compute));
  return out;
}

std::vector<TimedModel> released_timed_models() {
  return {released_timed_model("released, bf16", Matrices::bf16, false),
          released_timed_model("released, int8 pruned", Matrices::int8, true)};
}

Result<std::optional<TimeEstimate>> estimate_time(const TimedModel& model, const TimedRequest& request, const MeasuredSpeeds& speeds) {
  TRITIUM_TRY_ASSIGN(const ClipLength length, clip_length_from_frames(request.frames));
  TRITIUM_TRY_ASSIGN(const Size size, snap_size_up(request.width, request.height));
  const VideoLatentShape video{static_cast<int>(model.dit.video_features / (kPatch * kPatch)), length.video_latents,
                               size.height / kPixelsPerLatent, size.width / kPixelsPerLatent};
  TimeEstimate out{model.name, request, 0, {}, 0, 0};
  out.rows = request.text_tokens + 2 * std::int64_t{length.audio_latents} + video.rows();
  struct Stage {
    const char* name;
    TimedModel::Part part;
    StageCost cost;
  };
  const Stage stages[] = {
      {"text", model.text_part, text_cost(model.text, request.text_tokens)},
      {"denoise", model.dit_part, denoise_cost(model.dit, out.rows, request.text_tokens, out.rows - request.text_tokens, request.steps)},
      {"video", model.video_part,
       video_decode_cost(model.video_vae, length.video_latents, size.height / kPixelsPerLatent, size.width / kPixelsPerLatent)},
      {"audio", model.audio_part, audio_decode_cost(model.audio_vae, length.audio_latents)}};
  for (const Stage& stage : stages) {
    const double products = product_speed(stage.part.matrices, speeds);
    if (products <= 0 || (stage.cost.attention_flops > 0 && speeds.attention <= 0)) return std::optional<TimeEstimate>();
    StageTime time{stage.name, stage.cost.flops, stage.cost.attention_flops, 0, (stage.cost.flops - stage.cost.attention_flops) / products};
    if (stage.cost.attention_flops > 0) time.compute_seconds += stage.cost.attention_flops / speeds.attention;
    if (speeds.disk > 0) time.read_seconds = static_cast<double>(stage.part.bytes) / speeds.disk;
    out.read_seconds += time.read_seconds;
    out.compute_seconds += time.compute_seconds;
    out.stages.push_back(std::move(time));
  }
  return std::optional(std::move(out));
}

std::vector<TimedRequest> usual_requests() {
  std::vector<TimedRequest> out;
  for (const TimedRequest& size : {TimedRequest{832, 480, 124, 0}, TimedRequest{1344, 768, 124, 0}, TimedRequest{1344, 768, 362, 0}})
    for (const int steps : {8, 30}) {
      out.push_back(size);
      out.back().steps = steps;
    }
  return out;
}

}  // namespace tritium
