#include "base/torch_generator.h"
#include "sampler/euler.h"
#include "sampler/noise.h"
#include "sampler/retake.h"
#include "sampler/schedule.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <limits>

namespace tritium {
namespace {

using Floats = std::vector<float>;

template <class T>
void expect_error(const Result<T>& result, const char* field, const char* part) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().field, field) << result.error().text();
  EXPECT_NE(result.error().text().find(part), std::string::npos) << result.error().text();
}

// ---- schedule

TEST(Schedule, BadRequestsAreRefused) {
  expect_error(make_schedule(0, 12), "steps", "nearest possible value is 1");
  expect_error(make_schedule(1001, 12), "steps", "1..1000");
  expect_error(make_schedule(1, 12, StepConvention::grid_points), "steps", "2..1000");
  expect_error(make_schedule(4, 0), "shift", "0 is outside");
  expect_error(make_schedule(4, -3), "shift", "-3");
  expect_error(make_schedule(4, std::numeric_limits<double>::infinity()), "shift", "inf");
  expect_error(make_schedule(4, std::numeric_limits<double>::quiet_NaN()), "shift", "nan");
}

TEST(Schedule, EveryConventionFallsFromOneToZero) {
  for (const StepConvention convention : {StepConvention::evaluations, StepConvention::grid_points, StepConvention::comfy_simple}) {
    for (int steps = 2; steps <= kMaxSteps; steps += steps < 60 ? 1 : 47) {
      for (const double shift : {0.1, 1.0, 3.0, 12.0, 100.0}) {
        const auto schedule = make_schedule(steps, shift, convention);
        ASSERT_TRUE(schedule.ok());
        const Floats& s = schedule->sigmas;
        EXPECT_EQ(schedule->evaluations(), convention == StepConvention::grid_points ? steps - 1 : steps);
        EXPECT_NEAR(s.front(), 1.0, 1e-6);  // below shift 1 the formula itself is not exact in float32
        EXPECT_EQ(s.back(), 0.0f);
        for (std::size_t i = 0; i + 1 < s.size(); ++i) EXPECT_GT(s[i], s[i + 1]) << steps << " steps, shift " << shift;
      }
    }
  }
}

TEST(Schedule, GridPointsAreOneEvaluationLess) {
  EXPECT_EQ(make_schedule(5, 12, StepConvention::grid_points)->sigmas, make_schedule(4, 12)->sigmas);
}

TEST(Schedule, TimesRunFromNoiseToData) {
  const Schedule s = *make_schedule(4, 12);
  EXPECT_EQ(s.time(0), 0.0f);
  EXPECT_EQ(s.reported_timestep(3), 800.0f);
  EXPECT_FLOAT_EQ(s.time(3), 0.2f);
}

// ---- Euler

TEST(Euler, AVelocityTowardsTheDataReachesIt) {
  const Floats data{1, -2, 3}, noise{0.5f, 0.25f, -1};
  Floats velocity(3);
  for (std::size_t i = 0; i < 3; ++i) velocity[i] = data[i] - noise[i];  // of the straight line; x0 = x + sigma*v
  Floats x = noise;
  const Schedule schedule = *make_schedule(8, 12);
  for (int i = 0; i < schedule.evaluations(); ++i) ASSERT_TRUE(euler_step(x, velocity, schedule.sigma(i), schedule.next_sigma(i)).ok());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(x[i], data[i], 1e-6);
}

TEST(Euler, EachStreamHasItsOwnSchedule) {
  Latents x{{0}, {0}};
  const Latents v{{1}, {1}};
  const Schedule video = *make_schedule(4, 12), audio = *make_schedule(4, 3);
  ASSERT_TRUE(euler_step(x, v, video, audio, 0).ok());
  EXPECT_EQ(x.video[0], video.sigma(0) - video.sigma(1));
  EXPECT_EQ(x.audio[0], audio.sigma(0) - audio.sigma(1));
}

TEST(Euler, MismatchesAreRefused) {
  Latents x{{0, 0}, {0}};
  const Schedule four = *make_schedule(4, 12), two = *make_schedule(2, 3);
  expect_error(euler_step(x, {{1}, {1}}, four, four, 0), "latents", "1 values");
  expect_error(euler_step(x, {{1, 1}, {1}}, four, two, 2), "steps", "audio 2");
  expect_error(euler_step(x, {{1, 1}, {1}}, four, four, -1), "steps", "-1");
}

// ---- noise

TEST(Noise, SeedsAbove32BitsAlias) {
  const VideoLatentShape video{4, 2, 4, 6};
  const AudioLatentShape audio{8, 5};
  const Latents a = draw_initial_noise(NoiseMode::diffsynth, 5, video, audio);
  const Latents b = draw_initial_noise(NoiseMode::diffsynth, 5 + (std::uint64_t{1} << 32), video, audio);
  EXPECT_EQ(a.video, b.video);
  EXPECT_EQ(a.audio, b.audio);
}

TEST(Noise, ModesShareTheVideoAndDifferInTheAudio) {
  const VideoLatentShape video{4, 2, 4, 6};
  const AudioLatentShape audio{8, 6};
  const Latents diffsynth = draw_initial_noise(NoiseMode::diffsynth, 5, video, audio);
  const Latents sglang = draw_initial_noise(NoiseMode::sglang, 5, video, audio);
  const Latents comfyui = draw_initial_noise(NoiseMode::comfyui, 5, video, audio);
  EXPECT_EQ(diffsynth.video, sglang.video);
  EXPECT_EQ(diffsynth.video, comfyui.video);
  EXPECT_TRUE(std::equal(diffsynth.audio.begin(), diffsynth.audio.end(), diffsynth.video.begin()));  // same seed, new generator
  Floats a = diffsynth.audio, b = sglang.audio;
  EXPECT_NE(a, b);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  EXPECT_EQ(a, b);  // the same values in another order
  EXPECT_FALSE(std::equal(comfyui.audio.begin(), comfyui.audio.end(), diffsynth.audio.begin()));
}

// The whole draw [channels, T+K, h, w], of which the leading frames are kept.
Floats reference_condition_rows(std::uint64_t seed, const VideoLatentShape& shape, std::size_t drawn) {
  const auto plane = static_cast<std::size_t>(shape.height * shape.width), kept = static_cast<std::size_t>(shape.frames) * plane;
  Floats whole(static_cast<std::size_t>(shape.channels) * drawn * plane), latent;
  TorchGenerator(seed).normal(whole);
  for (std::size_t c = 0; c < static_cast<std::size_t>(shape.channels); ++c) {
    const auto from = whole.begin() + static_cast<std::ptrdiff_t>(c * drawn * plane);
    latent.insert(latent.end(), from, from + static_cast<std::ptrdiff_t>(kept));
  }
  return *patchify_video(shape, latent);
}

TEST(Noise, ConditionNoiseIsTheStartOfAWholeDraw) {
  int ragged = 0;
  for (const int channels : {1, 3, 24}) {
    for (const int frames : {1, 2, 5, 9}) {
      for (const auto& [height, width] : {std::pair{2, 2}, {4, 6}, {2, 10}, {8, 8}}) {
        for (const int target : {1, 2, 7, 8}) {
          const VideoLatentShape shape{channels, frames, height, width};
          const auto drawn = static_cast<std::size_t>(std::max(target + 1, frames));
          const auto rows = draw_condition_noise(NoiseMode::diffsynth, 77, target, {&shape, 1});
          ASSERT_TRUE(rows.ok());
          EXPECT_EQ(*rows, reference_condition_rows(77, shape, drawn))
              << channels << "x" << frames << "x" << height << "x" << width << " of " << drawn;
          ragged += static_cast<std::size_t>(channels * height * width) * drawn % 16 != 0;
        }
      }
    }
  }
  EXPECT_GT(ragged, 0);
}

TEST(Noise, ConditionNoiseDependsOnTheNumberOfConditions) {
  const std::vector<VideoLatentShape> two(2, VideoLatentShape{24, 1, 4, 6});
  const Floats one = *draw_condition_noise(NoiseMode::sglang, 1, 7, std::span(two).first(1));
  const Floats both = *draw_condition_noise(NoiseMode::sglang, 1, 7, two);
  const std::size_t half = both.size() / 2;
  EXPECT_EQ(Floats(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(half)),
            Floats(both.begin() + static_cast<std::ptrdiff_t>(half), both.end()));
  EXPECT_NE(one, Floats(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(half)));
  EXPECT_TRUE(draw_condition_noise(NoiseMode::comfyui, 1, 7, {})->empty());
  const VideoLatentShape odd{24, 1, 3, 6};
  expect_error(draw_condition_noise(NoiseMode::comfyui, 1, 7, {&odd, 1}), "latents", "even");
}

TEST(Noise, AnchorsAreAlmostClean) {
  const Floats clean{1, -2}, noise{10, 10};
  const Floats mixed = *mix_condition_anchors(clean, noise);
  EXPECT_NEAR(mixed[0], 1.009, 1e-6);
  EXPECT_NEAR(mixed[1], -1.988, 1e-6);
  expect_error(mix_condition_anchors(clean, std::span(noise).first(1)), "latents", "1 noise values");
}

// ---- retake

struct RetakeCase {
  VideoLatentShape video{1, 2, 2, 2};
  AudioLatentShape audio{1, 3};
  Latents clean{Floats(8, 5.0f), Floats(6, 6.0f)};
  Latents noise{Floats(8, 1.0f), Floats(6, 2.0f)};
};

TEST(Retake, KeptPartsTravelFromNoiseToTheClip) {
  const RetakeCase c;
  const auto retake = Retake::make(c.video, c.audio, {{0, 1}, {1, 0, 1}}, c.clean, c.noise);
  ASSERT_TRUE(retake.ok()) << retake.error().text();
  Latents x{Floats(8, 9.0f), Floats(6, 9.0f)};
  ASSERT_TRUE(retake->hold(x, 0.75f, 0.5f).ok());
  EXPECT_EQ(x.video, (Floats{2, 2, 2, 2, 9, 9, 9, 9}));
  EXPECT_EQ(x.audio, (Floats{9, 4, 9, 9, 4, 9}));
  ASSERT_TRUE(retake->make_clean(x).ok());
  EXPECT_EQ(x.video, (Floats{5, 5, 5, 5, 9, 9, 9, 9}));
  ASSERT_TRUE(retake->hold(x, 0, 0).ok());
  EXPECT_EQ(x.audio, (Floats{9, 6, 9, 9, 6, 9}));
}

TEST(Retake, AStreamWithoutAMaskIsNotTouched) {
  const RetakeCase c;
  const auto retake = Retake::make(c.video, c.audio, {{}, {0, 0, 0}}, {{}, c.clean.audio}, {{}, c.noise.audio});
  ASSERT_TRUE(retake.ok()) << retake.error().text();
  Latents x{Floats(8, 9.0f), Floats(6, 9.0f)};
  ASSERT_TRUE(retake->hold(x, 0, 0).ok());
  EXPECT_EQ(x.video, Floats(8, 9.0f));
  EXPECT_EQ(x.audio, Floats(6, 6.0f));
}

TEST(Retake, WrongSizesAreRefused) {
  const RetakeCase c;
  expect_error(Retake::make(c.video, c.audio, {{0}, {}}, c.clean, c.noise), "latents", "video mask has 1 values, 2 expected");
  expect_error(Retake::make(c.video, c.audio, {{}, {0, 0, 0}}, {{}, {}}, c.noise), "latents", "clean audio latent has 0");
  expect_error(Retake::make(c.video, c.audio, {{0, 1}, {}}, c.clean, {}), "latents", "video noise");
  Latents x{Floats(7), Floats(6)};
  expect_error(Retake::make(c.video, c.audio, {{0, 1}, {}}, c.clean, c.noise)->hold(x, 0, 0), "latents", "7 values, 8 expected");
}

}  // namespace
}  // namespace tritium
