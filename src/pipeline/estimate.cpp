#include "pipeline/estimate.h"

#include "base/try.h"
#include "model/geometry/canvas.h"
#include "model/geometry/clip_length.h"
#include "model/geometry/patchify.h"
#include "pipeline/memory_stages.h"
#include "pipeline/stage_time.h"

namespace tritium {
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
    const auto seconds = compute_seconds(stage.cost, stage.part.product, speeds);
    if (!seconds) return std::optional<TimeEstimate>();
    StageTime time{stage.name, stage.cost.flops, stage.cost.attention_flops, 0, *seconds};
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
