// The audio VAE's encoder: stereo sound to latents. Source: spec/vae.md §2.1-§2.4.
#pragma once

#include "model/audio_vae/encoder_weights.h"

namespace tritium::audio_vae {

// Normalized latents as the diffusion transformer takes them, [2, latent_channels, length] row-major, left channel first.
struct EncodedAudio {
  std::vector<float> values;
  std::int64_t length = 0;  // latents per stereo channel
};

// Called after every stage of either channel.
using EncodeProgress = std::function<void(int done, int total)>;

// Not thread safe, as the device it runs on. Observers of the device see the intermediates of both channels as
// "audio_vae.encoder.left.<stage>.<name>" with the names of the reference's modules, e.g. "audio_vae.encoder.left.stage0.encoder.block.1".
class AudioEncoder {
 public:
  // Checks names and shapes without loading; the result is the number of bytes load() will allocate on the device.
  static Result<std::uint64_t> check(const WeightPart& part, const AudioVaeConfig& config);
  // `device` must outlive the encoder. The weights are kept in float32.
  static Result<AudioEncoder> load(Device& device, const WeightPart& part, const AudioVaeConfig& config,
                                   const CancelToken* cancel = nullptr, const LoadProgress& progress = {});

  [[nodiscard]] const AudioVaeConfig& config() const { return config_; }

  // Latents per channel of so many samples: a begun one counts.
  static std::int64_t latents_of_samples(const AudioVaeConfig& config, std::int64_t samples);

  // The posterior means of sound at config().sampling_rate, equally many samples per channel, continued with zeros to whole latents. The
  // channels do not influence each other; for mono sound give the same samples twice, they are then encoded once.
  // Errors: usage (field "audio") for no samples, channels of different lengths and samples that are not finite; rejected when a stage
  // comes out not finite (channel and stage are named); interrupted; does_not_fit.
  Result<EncodedAudio> encode(std::span<const float> left, std::span<const float> right, const CancelToken* cancel = nullptr,
                              const EncodeProgress& progress = {}) const;

 private:
  AudioEncoder(Device& device, AudioVaeConfig config, EncoderWeights weights, TensorPool pool);
  // One channel: samples to normalized latents [latent_channels, length].
  Result<std::vector<float>> encode_channel(const std::string& scope, std::span<const float> samples, const CancelToken* cancel,
                                            const std::function<void()>& stage_done) const;

  Device* device_;
  AudioVaeConfig config_;
  EncoderWeights weights_;
  TensorPool pool_;
};

}  // namespace tritium::audio_vae
