#include "media/audio_resample.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace tritium {
namespace {

constexpr double kZeroCrossings = 6;  // of the sinc on either side, where the window ends
constexpr double kRolloff = 0.99;     // of the lower Nyquist frequency

// The filter at `t` zero crossings from its centre.
double filter(double t) {
  t = std::clamp(t, -kZeroCrossings, kZeroCrossings);
  const double window = std::cos(std::numbers::pi * t / (2 * kZeroCrossings)), angle = std::numbers::pi * t;
  return (angle == 0 ? 1.0 : std::sin(angle) / angle) * window * window;
}

}  // namespace

Result<AudioResampler> AudioResampler::create(int from_rate, int to_rate) {
  for (const int rate : {from_rate, to_rate})
    if (rate < 1 || rate > kMaxSamplingRate)
      return Error{ErrorCode::usage, fmt::format("a sampling rate of {} Hz is outside 1..{}", rate, kMaxSamplingRate), "audio", ""};
  const int common = std::gcd(from_rate, to_rate);
  return AudioResampler(from_rate / common, to_rate / common);
}

AudioResampler::AudioResampler(std::int64_t source, std::int64_t target) : source_(source), target_(target) {
  if (source == target) return;  // samples pass unchanged
  const double base = kRolloff * static_cast<double>(std::min(source, target)), o = static_cast<double>(source);
  const double reach = kZeroCrossings * o / base;  // in samples; the filter is zero beyond
  taps_ = static_cast<std::int64_t>(2 * reach) + 2;
  for (std::int64_t phase = 0; phase < target; ++phase) {
    // The reference divides in float32 here and computes everything else in float64.
    const auto centre = static_cast<double>(static_cast<float>(phase) / static_cast<float>(target));
    const auto first = static_cast<std::int64_t>(std::floor(centre * o - reach));
    first_tap_.push_back(first);
    for (std::int64_t tap = first; tap < first + taps_; ++tap)
      weights_.push_back(static_cast<float>(base / o * filter(base * (static_cast<double>(tap) / o - centre))));
  }
}

std::int64_t AudioResampler::first_sample(std::int64_t index) const {
  return index / target_ * source_ + first_tap_[static_cast<std::size_t>(index % target_)];
}

void AudioResampler::push(std::span<const float> samples, std::vector<float>& out) {
  if (source_ == target_) {
    out.insert(out.end(), samples.begin(), samples.end());
    return;
  }
  kept_.insert(kept_.end(), samples.begin(), samples.end());
  received_ += static_cast<std::int64_t>(samples.size());
  std::int64_t end = next_;
  while (first_sample(end) + taps_ <= received_) ++end;
  emit(end, out);
  forget();
}

void AudioResampler::finish(std::vector<float>& out) {
  emit((target_ * received_ + source_ - 1) / source_, out);
  kept_.clear();
  kept_first_ = received_ = next_ = 0;
}

void AudioResampler::emit(std::int64_t end, std::vector<float>& out) {
  for (; next_ < end; ++next_) {
    const std::int64_t first = first_sample(next_);
    const float* weights = &weights_[static_cast<std::size_t>(next_ % target_ * taps_)];
    double sum = 0;
    for (std::int64_t tap = std::max<std::int64_t>(0, -first); tap < std::min(taps_, received_ - first); ++tap)
      sum += static_cast<double>(weights[tap]) * static_cast<double>(kept_[static_cast<std::size_t>(first + tap - kept_first_)]);
    out.push_back(static_cast<float>(sum));
  }
}

// Drops the samples that no later output needs.
void AudioResampler::forget() {
  const std::int64_t needed = std::clamp(first_sample(next_), kept_first_, received_);
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(needed - kept_first_));
  kept_first_ = needed;
}

Result<std::vector<float>> resample_audio(std::span<const float> samples, int from_rate, int to_rate) {
  TRITIUM_TRY_ASSIGN(AudioResampler resampler, AudioResampler::create(from_rate, to_rate));
  std::vector<float> out;
  resampler.push(samples, out);
  resampler.finish(out);
  return out;
}

}  // namespace tritium
