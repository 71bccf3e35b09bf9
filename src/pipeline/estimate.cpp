#include "pipeline/estimate.h"

#include "base/try.h"
#include "model/geometry/canvas.h"
#include "model/geometry/clip_length.h"
#include "model/geometry/patchify.h"
#include "pipeline/memory_stages.h"

namespace tritium {
namespace {

// By how the matrices are kept: float16 is widened, other formats have to be decoded, as int8 has.
double product_speed(const PartShape& part, const MeasuredSpeeds& speeds) {
  if (part.format == "f32" || part.format == "f16") return speeds.f32;
  return part.format == "bf16" ? speeds.bf16 : speeds.int8;
}

}  // namespace

Result<std::optional<TimeEstimate>> estimate_time(const ModelShape& model, const RequestShape& request, const MeasuredSpeeds& speeds) {
  TRITIUM_TRY_ASSIGN(const ClipLength length, clip_length_from_frames(request.frames));
  TRITIUM_TRY_ASSIGN(const Size size, snap_size_up(request.width, request.height));
  const int height = size.height / kPixelsPerLatent, width = size.width / kPixelsPerLatent;
  const VideoLatentShape video{static_cast<int>(model.dit_config.video_features / (kPatch * kPatch)), length.video_latents, height, width};
  TimeEstimate out{model.name, request, 0, {}, 0, 0};
  out.rows = request.text_tokens + 2 * std::int64_t{length.audio_latents} + video.rows();
  struct Stage {
    const char* name;
    const PartShape& part;
    StageCost cost;
  };
  const Stage stages[] = {
      {"text", model.text, text_cost(model.text_config, request.text_tokens)},
      {"denoise", model.dit,
       denoise_cost(model.dit_config, out.rows, request.text_tokens, out.rows - request.text_tokens, denoise_work(model, request))},
      {"video", model.video, video_decode_cost(model.video_vae_config, length.video_latents, height, width, request.acceleration.decoding)},
      {"audio", model.audio, audio_decode_cost(model.audio_vae_config, length.audio_latents)}};
  for (const Stage& stage : stages) {
    const double products = product_speed(stage.part, speeds), attention = stage.cost.attention_flops;
    if (products <= 0 || (attention > 0 && speeds.attention <= 0)) return std::optional<TimeEstimate>();
    StageTime time{stage.name, stage.cost.flops, attention, 0, (stage.cost.flops - attention) / products};
    if (attention > 0) time.compute_seconds += attention / speeds.attention;
    if (speeds.disk > 0) time.read_seconds = static_cast<double>(stage.part.total().file) / speeds.disk;
    out.read_seconds += time.read_seconds;
    out.compute_seconds += time.compute_seconds;
    out.stages.push_back(std::move(time));
  }
  return std::optional(std::move(out));
}

std::vector<RequestShape> usual_requests() {
  constexpr int kTextTokens = 300;
  struct Clip {
    int width, height, frames;
  };
  std::vector<RequestShape> out;
  for (const Clip& clip : {Clip{832, 480, 124}, Clip{1344, 768, 124}, Clip{1344, 768, 362}})
    for (const int steps : {8, 30}) {
      RequestShape request;
      request.width = clip.width;
      request.height = clip.height;
      request.frames = clip.frames;
      request.steps = steps;
      request.text_tokens = kTextTokens;
      out.push_back(request);
    }
  return out;
}

}  // namespace tritium
