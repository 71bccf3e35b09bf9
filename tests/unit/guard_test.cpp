// The output guards: what they refuse and, as important, what they let pass.
#include "pipeline/guard.h"

#include "unit/media_clips.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <limits>
#include <random>

namespace tritium {
namespace {

using test::moving_disc;

ClipExpectation expectation(const Clip& clip) {
  return {clip.frames, clip.width, clip.height, static_cast<std::int64_t>(clip.left.size())};
}

GuardReport inspect(const Clip& clip) { return inspect_clip(clip, expectation(clip)); }

void expect_problem(const Clip& clip, const std::string& text) {
  const GuardReport report = inspect(clip);
  ASSERT_EQ(report.problems.size(), 1u) << (report.problems.empty() ? "nothing was found" : report.problems[1]);
  EXPECT_NE(report.problems[0].find(text), std::string::npos) << report.problems[0];
  const auto verdict = report.verdict();
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().code, ErrorCode::rejected);
  EXPECT_NE(verdict.error().message.find(text), std::string::npos);
}

void expect_accepted(const Clip& clip) {
  const GuardReport report = inspect(clip);
  EXPECT_TRUE(report.verdict().ok()) << report.verdict().error().text();
}

// Every channel of every pixel at `level`, or anywhere from level - noise to level + noise.
void fill(Clip& clip, int level, int noise = 0) {
  std::mt19937 random(1);
  for (auto& p : clip.rgb) p = static_cast<std::uint8_t>(level - noise + static_cast<int>(random() % static_cast<unsigned>(2 * noise + 1)));
}

void paint(Clip& clip, int frame, int x, int y, int size, int level) {
  for (int dy = 0; dy < size; ++dy)
    for (int dx = 0; dx < size; ++dx)
      for (int c = 0; c < 3; ++c)
        clip.rgb[static_cast<std::size_t>(((frame * clip.height + y + dy) * clip.width + x + dx) * 3 + c)] =
            static_cast<std::uint8_t>(level);
}

TEST(Guard, ANormalClipPasses) {
  const GuardReport report = inspect(moving_disc());
  EXPECT_TRUE(report.problems.empty());
  EXPECT_TRUE(report.warnings.empty());
  EXPECT_GT(report.change, 5);
  EXPECT_NEAR(report.peak, 0.5, 0.01);
  EXPECT_NEAR(report.left_db, -9.1, 0.3);
  expect_accepted(moving_disc(1));
  expect_accepted(moving_disc(22, 96, 96, false));
}

TEST(Guard, C1_BlackClipsAreRefused) {
  Clip clip = moving_disc();
  fill(clip, 0);
  const GuardReport report = inspect(clip);
  EXPECT_EQ(report.black_frames, 22);
  ASSERT_EQ(report.problems.size(), 2u);
  EXPECT_EQ(report.problems[0], "all 22 frames are black (mean luma 0.0 of 255, brightest pixel 0)");
  EXPECT_NE(report.problems[1].find("frozen"), std::string::npos);
  fill(clip, 3, 3);
  expect_problem(clip, "all 22 frames are black (mean luma 3.0 of 255");
}

TEST(Guard, SomethingSmallInTheDarkIsEnough) {
  Clip night = moving_disc();
  fill(night, 2, 2);
  paint(night, 11, 40, 40, 2, 200);  // one star in one frame
  expect_accepted(night);
  Clip fade = moving_disc();
  std::fill(fade.rgb.begin(), fade.rgb.end() - static_cast<std::ptrdiff_t>(3 * fade.frame_bytes()), std::uint8_t{0});
  const GuardReport report = inspect(fade);
  EXPECT_TRUE(report.problems.empty());
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("19 of 22 frames are black"), std::string::npos) << report.warnings[0];
}

TEST(Guard, FlatClipsAreRefused) {
  Clip clip = moving_disc();
  for (int t = 0; t < clip.frames; ++t) paint(clip, t, 0, 0, 96, 100 + t);  // changes, but never shows anything
  expect_problem(clip, "one even colour");
  fill(clip, 128, 1);
  expect_problem(clip, "one even colour");
  paint(clip, 21, 10, 10, 1, 140);
  expect_accepted(clip);
}

TEST(Guard, FrozenClipsAreRefused) {
  Clip clip = moving_disc();
  for (int t = 1; t < clip.frames; ++t)
    std::copy_n(clip.rgb.begin(), clip.frame_bytes(), clip.rgb.begin() + static_cast<std::ptrdiff_t>(clip.frame_bytes()) * t);
  expect_problem(clip, "frozen");
  for (std::size_t i = clip.frame_bytes(); i < clip.rgb.size(); i += 97) clip.rgb[i] ^= 1;  // rounding
  expect_problem(clip, "frozen");
}

TEST(Guard, AStillSceneWithFaintNoisePasses) {
  Clip clip = moving_disc();
  for (int t = 1; t < clip.frames; ++t)
    std::copy_n(clip.rgb.begin(), clip.frame_bytes(), clip.rgb.begin() + static_cast<std::ptrdiff_t>(clip.frame_bytes()) * t);
  Clip blink = clip;
  paint(blink, 20, 50, 50, 1, 255);  // one pixel, one frame
  expect_accepted(blink);
  std::mt19937 random(2);
  for (auto& p : clip.rgb) p = static_cast<std::uint8_t>(p + random() % 2);
  expect_accepted(clip);
}

TEST(Guard, SilenceIsRefused) {
  Clip clip = moving_disc();
  std::mt19937 random(3);
  const auto set = [&](float offset, float noise) {
    for (std::size_t i = 0; i < clip.left.size(); ++i) {
      clip.left[i] = offset + noise * static_cast<float>(static_cast<int>(random() % 3) - 1);
      clip.right[i] = offset;
    }
  };
  set(0, 0);
  expect_problem(clip, "silent (loudest 100 ms at -200 dB");
  set(0, 1e-4f);  // -82 dB
  expect_problem(clip, "silent");
  set(0.5f, 0);  // an offset is no sound
  expect_problem(clip, "silent");
  clip.left[15000] = 0.9f;  // a click is
  EXPECT_TRUE(inspect(clip).problems.empty());
  ASSERT_EQ(inspect(clip).warnings.size(), 1u);
  EXPECT_EQ(inspect(clip).warnings[0], "the right channel is silent");
  set(0, 1e-3f);  // -62 dB: faint room noise
  EXPECT_TRUE(inspect(clip).problems.empty());
}

TEST(Guard, ClippedSoundIsRefused) {
  Clip clip = moving_disc();
  const auto drive = [&](float gain) {
    Clip out = clip;
    for (auto* channel : {&out.left, &out.right})
      for (float& v : *channel) v = std::clamp(v * gain, -1.0f, 1.0f);
    return out;
  };
  expect_problem(drive(10), "clipped");
  expect_accepted(drive(2));
}

TEST(Guard, NonFiniteSoundIsRefused) {
  Clip clip = moving_disc();
  clip.left[5] = std::numeric_limits<float>::quiet_NaN();
  clip.right[6] = -std::numeric_limits<float>::infinity();
  expect_problem(clip, "2 of 59200 sound samples are not finite");
}

TEST(Guard, WrongLengthsAreRefused) {
  const Clip clip = moving_disc();
  ClipExpectation expected = expectation(clip);
  expected.frames = 39;
  EXPECT_NE(inspect_clip(clip, expected).problems.at(0).find("22 frames of 96x96 instead of 39"), std::string::npos);
  expected = expectation(clip);
  expected.samples += 800;
  EXPECT_NE(inspect_clip(clip, expected).problems.at(0).find("29600 samples instead of 30400"), std::string::npos);
  Clip odd = clip;
  odd.right.pop_back();
  EXPECT_NE(inspect(odd).problems.at(0).find("29600 and 29599"), std::string::npos);
  Clip torn = clip;
  torn.rgb.pop_back();
  EXPECT_NE(inspect(torn).problems.at(0).find("608255 bytes"), std::string::npos);
  Clip none;
  EXPECT_FALSE(inspect(none).problems.empty());
}

TEST(Guard, C1_NonFiniteValuesAreNamedWithStageAndStep) {
  std::vector<float> values(4096, 1e38f);
  EXPECT_TRUE(check_finite(values, "denoise", 3).ok());
  EXPECT_TRUE(check_finite({}, "denoise", 3).ok());
  values[17] = std::numeric_limits<float>::quiet_NaN();
  values[18] = std::numeric_limits<float>::infinity();
  const auto checked = check_finite(values, "denoise", 3);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, ErrorCode::rejected);
  EXPECT_EQ(checked.error().message, "denoise, step 3: 2 of 4096 values are not finite (the first is nan at 17)");
  EXPECT_EQ(check_finite(values, "audio decode").error().message.rfind("audio decode: 2 of", 0), 0u);
}

}  // namespace
}  // namespace tritium
