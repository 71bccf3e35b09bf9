// The arithmetic stages of a request, one function each: text -> latents -> sound and pictures. Files and devices are chosen by the caller.
#pragma once

#include "media/stereo_sound.h"
#include "model/audio_vae/decoder.h"
#include "model/prompt/presentation.h"
#include "model/text/text_model.h"
#include "model/video_vae/decoder.h"
#include "pipeline/conditioning.h"
#include "pipeline/frame_queue.h"
#include "sampler/evaluation_policy.h"

#include <tritium/plan.h>

#include <optional>

namespace tritium {

// Called with work units done and in total.
using StepProgress = std::function<void(int done, int total)>;

// Of the latents.
[[nodiscard]] VideoLatentShape video_shape(const Plan& plan);
[[nodiscard]] AudioLatentShape audio_shape(const Plan& plan);

// Text alone, without pictures.
Result<Conditioning> encode_text(const TextModel& model, const Presentation& presentation, const CancelToken* cancel,
                                 const StepProgress& progress);

// The noise that the plan's seed means.
Result<Latents> initial_noise(const Plan& plan);

// A state of the latents between two steps.
struct DenoiseState {
  Latents latents;
  int steps = 0;          // done
  int computed = 0;       // evaluations of the transformer in them
  PolicyMemory memory{};  // what the plan's acceleration remembers
};
// What is known after a step.
struct StepDone {
  int steps = 0, computed = 0;  // as in DenoiseState
  const Latents& state;
  const Latents& velocity;  // that led to it
  const EvaluationPolicy& policy;
};
// What it does changes nothing.
using AfterStep = std::function<void(const StepDone& done)>;

// All steps from `noise` at the first level to clean latents: video [channels, T, H, W], audio [2, dim, A]; accelerated as the plan says.
// What a retake keeps of a clip ends exactly on it. `progress` counts blocks over all steps. Every step is checked for values that are not
// finite. `from`: the state that an earlier call with the same plan and noise reached; the result has the same bits as without.
Result<DenoiseState> denoise(const Dit& dit, const Plan& plan, const Conditioning& conditioning, Latents noise, const CancelToken* cancel,
                             const StepProgress& progress, std::optional<DenoiseState> from = {}, const AfterStep& after_step = {});

// The samples of both channels.
Result<StereoSound> decode_audio(const audio_vae::AudioDecoder& decoder, const Plan& plan, const Latents& latents,
                                 const CancelToken* cancel, const StepProgress& progress);

// Of a clip of the decoder: as many frames become final at the same time.
std::size_t frames_at_once(const video_vae::VideoVaeConfig& config);

// plan.frames frames in 8 bits, each as soon as it is final. An error of the sink stops the decoding and is passed on.
Result<void> decode_video(video_vae::VideoDecoder& decoder, const Plan& plan, const Latents& latents, const PictureSink& sink,
                          const CancelToken* cancel, const StepProgress& progress);

}  // namespace tritium
