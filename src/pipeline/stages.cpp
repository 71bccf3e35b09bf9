#include "pipeline/stages.h"

#include "base/try.h"
#include "model/video_vae/pixels.h"
#include "pipeline/acceleration.h"
#include "pipeline/noise_mode.h"

namespace tritium {

VideoLatentShape video_shape(const Plan& plan) { return {plan.latent_channels, plan.latent_frames, plan.latent_height, plan.latent_width}; }
AudioLatentShape audio_shape(const Plan& plan) { return {plan.audio_dim, plan.audio_latents}; }

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

Result<StereoSound> decode_audio(const audio_vae::AudioDecoder& decoder, const Plan& plan, const Latents& latents,
                                 const CancelToken* cancel, const StepProgress& progress) {
  TRITIUM_TRY_ASSIGN(audio_vae::StereoSound sound, decoder.decode({latents.audio, plan.audio_latents}, cancel, progress));
  return StereoSound{sound.sampling_rate, std::move(sound.channels[0]), std::move(sound.channels[1])};
}

std::size_t frames_at_once(const video_vae::VideoVaeConfig& config) { return static_cast<std::size_t>(config.temporal().clip_length); }

Result<void> decode_video(video_vae::VideoDecoder& decoder, const Plan& plan, const Latents& latents, const PictureSink& sink,
                          const CancelToken* cancel, const StepProgress& progress) {
  const auto convert = [&](int, std::span<const float> frame) {
    std::vector<std::uint8_t> rgb(frame.size());
    video_vae::to_rgb8(frame, rgb);
    return sink(std::move(rgb));
  };
  return decoder.decode({latents.video, plan.latent_frames, plan.latent_height, plan.latent_width}, convert, cancel, progress,
                        decoding_of(plan));
}

}  // namespace tritium
