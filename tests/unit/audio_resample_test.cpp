// The audio resampler against the definition with all its taps, for any pair of rates and any cutting of the signal.
#include "media/audio_resample.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

namespace tritium {
namespace {

std::vector<float> noise(std::size_t count, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::vector<float> out(count);
  for (float& v : out) v = static_cast<float>(engine()) / 4294967296.0f * 2.0f - 1.0f;
  return out;
}

std::vector<float> resampled(std::span<const float> samples, int from, int to) { return resample_audio(samples, from, to).value(); }

// spec/vae.md §2.6 word for word: every tap from -W to W + o of every phase, everything in double precision.
std::vector<double> by_definition(std::span<const float> x, int from, int to) {
  const int common = std::gcd(from, to), o = from / common, n = to / common;
  const double b = 0.99 * std::min(o, n), pi = std::numbers::pi;
  const auto width = static_cast<std::int64_t>(std::ceil(6 * o / b)), length = static_cast<std::int64_t>(x.size());
  std::vector<double> y;
  for (std::int64_t i = 0; i < (n * length + o - 1) / o; ++i) {
    const std::int64_t m = i / n, p = i % n;
    double sum = 0;
    for (std::int64_t q = 0; q < 2 * width + o; ++q) {
      const std::int64_t at = m * o + q - width;
      if (at < 0 || at >= length) continue;
      const double t = std::clamp(b * (static_cast<double>(q - width) / o - static_cast<double>(p) / n), -6.0, 6.0);
      const double sinc = t == 0 ? 1.0 : std::sin(pi * t) / (pi * t);
      sum += b / o * sinc * std::pow(std::cos(pi * t / 12), 2) * static_cast<double>(x[static_cast<std::size_t>(at)]);
    }
    y.push_back(sum);
  }
  return y;
}

TEST(AudioResample, EveryPairOfRatesFollowsTheDefinition) {
  for (const int from : {8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 96000, 192000, 7, 31999, 768000})
    for (const int to : {32000, 44100, 8000, 3}) {
      if (from == to) continue;
      const std::vector<float> x = noise(from < 100 ? 300 : 900);
      const auto y = resampled(x, from, to);
      const auto expected = by_definition(x, from, to);
      ASSERT_EQ(y.size(), expected.size()) << from << " -> " << to;
      double worst = 0;
      for (std::size_t i = 0; i < y.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(y[i]) - expected[i]));
      EXPECT_LE(worst, 1e-4) << from << " -> " << to;  // the reference rounds the phases to float32
    }
}

TEST(AudioResample, LengthIsRoundedUp) {
  for (const std::size_t samples : {0u, 1u, 2u, 440u, 441u, 442u, 44100u}) {
    EXPECT_EQ(resampled(noise(samples), 44100, 32000).size(), (samples * 320 + 440) / 441) << samples;
    EXPECT_EQ(resampled(noise(samples), 16000, 32000).size(), samples * 2);
  }
}

TEST(AudioResample, EqualRatesChangeNothing) {
  const std::vector<float> x = noise(1000);
  EXPECT_EQ(resampled(x, 32000, 32000), x);
  EXPECT_EQ(resampled(x, 5, 5), x);
}

TEST(AudioResample, PiecesDoNotChangeABit) {
  const std::vector<float> x = noise(20000);
  for (const auto& [from, to] :
       {std::pair{44100, 32000}, std::pair{16000, 32000}, std::pair{96000, 32000}, std::pair{31999, 32000}, std::pair{32000, 32000}}) {
    const std::vector<float> whole = resampled(x, from, to);
    AudioResampler resampler = AudioResampler::create(from, to).value();
    for (const std::size_t piece : {1u, 13u, 4096u}) {  // one resampler after the other signal
      std::vector<float> out;
      for (std::size_t at = 0; at < x.size(); at += piece) resampler.push(std::span(x).subspan(at, std::min(piece, x.size() - at)), out);
      EXPECT_LE(out.size(), whole.size());
      EXPECT_GE(out.size() + 64, whole.size()) << "samples are held back without need";
      resampler.finish(out);
      EXPECT_EQ(out, whole) << from << " -> " << to << " in pieces of " << piece;
    }
  }
}

TEST(AudioResample, AToneStaysItselfAndOneAboveTheBandIsTakenOut) {
  const auto tone = [](double hertz, int rate) {
    std::vector<float> out(static_cast<std::size_t>(rate / 4));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / rate));
    return out;
  };
  const auto inner = [](const std::vector<float>& v) { return std::vector(v.begin() + 200, v.end() - 200); };
  const auto rms = [](const std::vector<float>& v) {
    double sum = 0;
    for (const float x : v) sum += static_cast<double>(x) * static_cast<double>(x);
    return std::sqrt(sum / static_cast<double>(v.size()));
  };
  for (const int from : {44100, 48000, 96000}) {
    auto difference = inner(resampled(tone(1000, from), from, 32000));
    const auto expected = inner(tone(1000, 32000));
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= expected[i];
    EXPECT_LE(rms(difference), 0.005) << from;
    EXPECT_LE(rms(inner(resampled(tone(20000, from), from, 32000))), 0.02) << from;
  }
}

TEST(AudioResample, ImpossibleRatesAreRefused) {
  for (const auto& [from, to] : {std::pair{0, 32000}, std::pair{32000, 0}, std::pair{-1, 32000}, std::pair{32000, kMaxSamplingRate + 1}}) {
    const auto refused = AudioResampler::create(from, to);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::usage);
    EXPECT_EQ(refused.error().field, "audio");
  }
  EXPECT_TRUE(AudioResampler::create(kMaxSamplingRate, kMaxSamplingRate - 1).ok());
}

}  // namespace
}  // namespace tritium
