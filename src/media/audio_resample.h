// Changing the sampling rate of sound exactly as the reference does (torchaudio's Resample with its defaults: a sinc with a Hann window).
// Source: spec/vae.md §2.6.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tritium {

inline constexpr int kMaxSamplingRate = 768000;  // Hz

// One channel of sound of any length, piece by piece; what is kept does not grow with it. The result does not depend on the pieces.
class AudioResampler {
 public:
  // Error (usage, field "audio"): a rate outside 1..kMaxSamplingRate.
  static Result<AudioResampler> create(int from_rate, int to_rate);

  // Appends the samples that are certain by now to `out`.
  void push(std::span<const float> samples, std::vector<float>& out);
  // Appends the rest: ceil(to_rate · samples / from_rate) in all. The resampler then begins anew.
  void finish(std::vector<float>& out);

 private:
  AudioResampler(std::int64_t source, std::int64_t target);
  [[nodiscard]] std::int64_t first_sample(std::int64_t index) const;  // that output `index` depends on, may be negative
  void emit(std::int64_t end, std::vector<float>& out);
  void forget();

  std::int64_t source_, target_;         // the rates without their common divisor
  std::int64_t taps_ = 1;                // per output sample
  std::vector<std::int64_t> first_tap_;  // [target_] sample of the first tap, relative to that of the period's beginning
  std::vector<float> weights_;           // [target_, taps_]
  std::vector<float> kept_;              // samples from number kept_first_ on
  std::int64_t kept_first_ = 0, received_ = 0, next_ = 0;
};

// The whole signal at once. Error as AudioResampler::create.
Result<std::vector<float>> resample_audio(std::span<const float> samples, int from_rate, int to_rate);

}  // namespace tritium
