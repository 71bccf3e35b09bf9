#include "pipeline/memory_stages.h"

#include "media/mp4_writer.h"
#include "model/geometry/canvas.h"
#include "model/geometry/clip_length.h"
#include "model/video_vae/decoder.h"
#include "pipeline/stages.h"

#include <algorithm>

namespace tritium {
namespace {

constexpr std::uint64_t kFloat = sizeof(float);
constexpr std::uint64_t kPixelBytes = 3;  // RGB of 8 bits
constexpr int kLatentPixels = 16, kPatchSide = 2;

std::uint64_t u(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace

DenoiseWork denoise_work(const ModelShape& m, const RequestShape& r) {
  const AcceleratedShape& a = r.acceleration;
  return {r.steps, a.evaluations > 0 ? a.evaluations : r.steps, a.blocks > 0 ? a.blocks : m.dit_config.layers, a.residual};
}

std::vector<StageNeed> stage_needs(const ModelShape& m, const RequestShape& r) {
  const int latent_frames = video_latents_of(r.frames), audio_latents = audio_latents_of(r.frames);
  const int height = r.height / kLatentPixels, width = r.width / kLatentPixels;
  const std::int64_t targets = std::int64_t{latent_frames} * (height / kPatchSide) * (width / kPatchSide) + 2 * std::int64_t{audio_latents};
  const std::int64_t rows = targets + r.text_tokens + r.condition_rows;

  // Conditioning and both kinds of latents are there all the time, the latter twice while a step is made; the sound from its decoding on,
  // and a second time in the writer of the MP4. Of the pictures there are those that wait to be encoded, the first and the one that is
  // made.
  const std::uint64_t text = kFloat * u(r.text_tokens) * u(m.text_config.hidden);
  const std::uint64_t latents = kFloat * (u(targets) * u(m.dit_config.video_features));
  const std::uint64_t before = kBaseBytes + text + 3 * latents;
  const std::uint64_t samples = u(audio_latents) * u(m.audio_vae_config.samples_per_latent());
  const std::uint64_t sound = 2 * kFloat * samples;
  const std::uint64_t waiting = std::min(u(r.frames), frames_at_once(m.video_vae_config)) + 2;
  const std::uint64_t writing = sound + kPixelBytes * u(r.width) * u(r.height) * waiting + Mp4Writer::working_bytes(r.width, r.height);
  const std::uint64_t joining = video_vae::VideoDecoder::frame_bytes(m.video_vae_config, height, width);

  const ModelShape& d = m.on_devices ? *m.on_devices : m;
  std::vector<StageNeed> out;
  if (r.has_inputs)
    out.push_back({"inputs", &m.inputs, &d.inputs, r.input_working_bytes, kBaseBytes, {.flops = r.input_flops}, 1, false, 0});
  const StageCost encode = text_cost(m.text_config, r.text_tokens);
  out.push_back({"text", &m.text, &d.text, encode.working_bytes, kBaseBytes + text, encode, 1, false, 0});
  const DenoiseWork work = denoise_work(m, r);
  const StageCost denoise = denoise_cost(m.dit_config, rows, r.text_tokens, targets, work);
  const std::uint64_t remembered = static_cast<std::uint64_t>(r.acceleration.remembered) * latents;
  out.push_back({"denoise", &m.dit, &d.dit, denoise.working_bytes, before + remembered, denoise, work.evaluations, true,
                 kFloat * u(rows) * u(m.dit_config.hidden), static_cast<double>(work.blocks) / static_cast<double>(m.dit_config.layers)});
  const StageCost audio = audio_decode_cost(m.audio_vae_config, audio_latents);
  out.push_back({"audio", &m.audio, &d.audio, audio.working_bytes, before + sound, audio, 1, false, 0});
  const StageCost video = video_decode_cost(m.video_vae_config, latent_frames, height, width, r.acceleration.decoding);
  out.push_back({"video", &m.video, &d.video, video.working_bytes - joining, before + sound + joining + writing, video, 1, false, 0});
  return out;
}

}  // namespace tritium
