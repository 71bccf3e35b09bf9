// The audio VAE's decoder: latents to stereo sound. Source: spec/vae.md §2.1, §2.5.
#pragma once

#include "model/audio_vae/weights.h"

#include <array>

namespace tritium::audio_vae {

// Latents as the diffusion transformer gives them (normalized), [2, channels, length] row-major, left channel first.
struct LatentAudio {
  std::span<const float> values;
  std::int64_t length = 0;  // latents per stereo channel
};

struct StereoSound {
  int sampling_rate = 0;                               // Hz
  std::array<std::vector<float>, kChannels> channels;  // left, right; in [-1, 1], equally long
};

// Called after every stage of either channel.
using StageProgress = std::function<void(int done, int total)>;

// Not thread safe, as the device it runs on. Observers of the device see the intermediates of both channels as
// "audio_vae.left.<stage>.<name>" with the names of the reference's modules, e.g. "audio_vae.left.stage0.decoder.ups.0.0".
class AudioDecoder {
 public:
  // Checks names and shapes without loading; the result is the number of bytes load() will allocate on the device.
  static Result<std::uint64_t> check(const WeightPart& part, const AudioVaeConfig& config);
  // `device` must outlive the decoder. The weights are kept in float32.
  static Result<AudioDecoder> load(Device& device, const WeightPart& part, const AudioVaeConfig& config,
                                   const CancelToken* cancel = nullptr, const LoadProgress& progress = {});

  [[nodiscard]] const AudioVaeConfig& config() const { return config_; }

  // samples_per_latent() samples per latent and channel; nothing is trimmed. One channel and one stage at a time, so that the working
  // memory is that of the largest stage of one channel. Errors: failure for latents that are not finite or not of the stated size,
  // rejected for a stage that comes out not finite (channel and stage are named), interrupted.
  Result<StereoSound> decode(const LatentAudio& latents, const CancelToken* cancel = nullptr, const StageProgress& progress = {}) const;

 private:
  AudioDecoder(Device& device, AudioVaeConfig config, DecoderWeights weights, TensorPool pool);
  [[nodiscard]] Result<void> check_latents(const LatentAudio& latents) const;
  // One stereo channel: de-normalized latents [channels, length] to clamped samples.
  Result<std::vector<float>> decode_channel(const std::string& scope, std::vector<float> signal, std::int64_t length,
                                            const CancelToken* cancel, const std::function<void()>& stage_done) const;

  Device* device_;
  AudioVaeConfig config_;
  DecoderWeights weights_;
  TensorPool pool_;
};

}  // namespace tritium::audio_vae
