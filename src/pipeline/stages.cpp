#include "pipeline/stages.h"

#include "base/try.h"
#include "model/video_vae/pixels.h"
#include "pipeline/guard.h"
#include "pipeline/noise_mode.h"
#include "sampler/euler.h"
#include "sampler/retake.h"
#include "sampler/schedule.h"

#include <fmt/format.h>

namespace tritium {
namespace {

VideoLatentShape video_shape(const Plan& plan) { return {plan.latent_channels, plan.latent_frames, plan.latent_height, plan.latent_width}; }
AudioLatentShape audio_shape(const Plan& plan) { return {plan.audio_dim, plan.audio_latents}; }

}  // namespace

Result<Conditioning> encode_text(const TextModel& model, const Presentation& presentation, const CancelToken* cancel,
                                 const StepProgress& progress) {
  Conditioning out;
  TRITIUM_TRY_ASSIGN(out.text, model.encode(presentation.ids, presentation.positions, cancel, progress));
  for (const std::int32_t tag : presentation.tags) out.text_tags.push_back(tag == 0 ? Modality::video : Modality::text);
  return out;
}

Result<Latents> initial_noise(const Plan& plan) {
  TRITIUM_TRY_ASSIGN(const NoiseMode mode, noise_mode_from_name(plan.noise));
  return draw_initial_noise(mode, plan.seed, video_shape(plan), audio_shape(plan));
}

Result<Latents> denoise(const Dit& dit, const Plan& plan, const Conditioning& conditioning, Latents noise, const CancelToken* cancel,
                        const StepProgress& progress, std::optional<DenoiseState> from, const AfterStep& after_step) {
  const VideoLatentShape video = video_shape(plan);
  const AudioLatentShape audio = audio_shape(plan);
  TRITIUM_TRY_ASSIGN(PackedLayout layout, make_layout({conditioning.text_tags, video, plan.audio_latents, conditioning.shapes.keyframes,
                                                       conditioning.shapes.references}));
  const bool keeps = !conditioning.masks.video.empty() || !conditioning.masks.audio.empty();
  TRITIUM_TRY_ASSIGN(const Retake retake, Retake::make(video, audio, conditioning.masks, conditioning.clean, noise));
  const Schedule video_schedule{plan.video_sigmas}, audio_schedule{plan.audio_sigmas};
  std::vector<RowTimesteps> timesteps;
  for (int i = 0; i < plan.steps; ++i) {
    TRITIUM_TRY_ASSIGN(RowTimesteps step, assign_timesteps(layout, video_schedule.time(i), audio_schedule.time(i), conditioning.masks));
    timesteps.push_back(std::move(step));
  }
  TRITIUM_TRY_ASSIGN(DitRun run, DitRun::begin(dit, std::move(layout), conditioning.text, conditioning.rows, std::move(timesteps), cancel));
  const int blocks = dit.config().layers, first = from ? from->steps : 0;
  Latents state = from ? std::move(from->latents) : std::move(noise);
  for (int i = first; i < plan.steps; ++i) {
    Latents seen = state;
    if (keeps) TRITIUM_TRY(retake.make_clean(seen));
    DitRows rows;
    TRITIUM_TRY_ASSIGN(rows.video, patchify_video(video, seen.video));
    TRITIUM_TRY_ASSIGN(rows.audio, patchify_audio(audio, seen.audio));
    const auto block_done = [&](int done, int) {
      if (progress) progress(i * blocks + done, plan.steps * blocks);
    };
    TRITIUM_TRY_ASSIGN(const DitRows velocity, run.evaluate(i, rows, cancel, block_done));
    Latents direction;
    TRITIUM_TRY_ASSIGN(direction.video, unpatchify_video(video, velocity.video));
    TRITIUM_TRY_ASSIGN(direction.audio, unpatchify_audio(audio, velocity.audio));
    TRITIUM_TRY(euler_step(state, direction, video_schedule, audio_schedule, i));
    if (keeps) TRITIUM_TRY(retake.hold(state, video_schedule.next_sigma(i), audio_schedule.next_sigma(i)));
    TRITIUM_TRY(check_finite(state.video, "the video latents", i));
    TRITIUM_TRY(check_finite(state.audio, "the audio latents", i));
    if (after_step) after_step(i + 1, state, direction);
  }
  return state;
}

Result<void> decode_video(video_vae::VideoDecoder& decoder, const Plan& plan, const Latents& latents, Clip& clip, const CancelToken* cancel,
                          const StepProgress& progress) {
  clip.width = plan.width;
  clip.height = plan.height;
  clip.frames = 0;
  clip.rgb.clear();
  clip.rgb.reserve(clip.frame_bytes() * static_cast<std::size_t>(plan.frames));
  const auto sink = [&](int, std::span<const float> frame) -> Result<void> {
    const std::size_t at = clip.rgb.size();
    clip.rgb.resize(at + clip.frame_bytes());
    video_vae::to_rgb8(frame, std::span(clip.rgb).subspan(at));
    ++clip.frames;
    return {};
  };
  return decoder.decode({latents.video, plan.latent_frames, plan.latent_height, plan.latent_width}, sink, cancel, progress);
}

Result<void> decode_audio(const audio_vae::AudioDecoder& decoder, const Plan& plan, const Latents& latents, Clip& clip,
                          const CancelToken* cancel, const StepProgress& progress) {
  TRITIUM_TRY_ASSIGN(audio_vae::StereoSound sound, decoder.decode({latents.audio, plan.audio_latents}, cancel, progress));
  clip.sample_rate = sound.sampling_rate;
  clip.left = std::move(sound.channels[0]);
  clip.right = std::move(sound.channels[1]);
  return {};
}

}  // namespace tritium
