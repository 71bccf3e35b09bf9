// Pictures in memory as JPEG, and previews from latents alone.
#include "pipeline/preview.h"
#include "media/clip.h"
#include "media/jpeg_writer.h"
#include "media/picture.h"
#include "unit/temp_folder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace tritium {
namespace {

class Pictures : public ::testing::Test {
 protected:
  Picture read(const std::string& jpeg) const {
    auto out = load_picture(folder_.write("picture.jpg", jpeg));
    EXPECT_TRUE(out.ok()) << out.error().text();
    return out.ok() ? *out : Picture{};
  }
  static Picture gradient(int width, int height) {
    Picture out{width, height, {}};
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        for (const int value : {255 * x / width, 255 * y / height, 128}) out.rgb.push_back(static_cast<std::uint8_t>(value));
    return out;
  }
  static double difference(const Picture& a, const Picture& b) {
    EXPECT_EQ(a.rgb.size(), b.rgb.size());
    double sum = 0;
    for (std::size_t i = 0; i < std::min(a.rgb.size(), b.rgb.size()); ++i) sum += std::abs(a.rgb[i] - b.rgb[i]);
    return sum / static_cast<double>(a.rgb.size());
  }
  test::TempFolder folder_;
};

TEST_F(Pictures, AJpegShowsWhatWasGiven) {
  for (const auto& [width, height] : {std::pair(64, 48), std::pair(1, 1), std::pair(17, 3)}) {
    const Picture picture = gradient(width, height);
    const auto jpeg = encode_jpeg(picture);
    ASSERT_TRUE(jpeg.ok()) << jpeg.error().text();
    const Picture back = read(*jpeg);
    EXPECT_EQ(back.width, width);
    EXPECT_EQ(back.height, height);
    if (width == 64) { EXPECT_LT(difference(back, picture), 4) << "colours are kept for pairs of pixels"; }
    EXPECT_EQ(*encode_jpeg(picture), *jpeg) << "the same bytes";
  }
}

TEST_F(Pictures, IncompleteOnesAreRefused) {
  const Picture short_one{8, 8, std::vector<std::uint8_t>(100)};
  EXPECT_FALSE(encode_jpeg(short_one).ok());
  EXPECT_FALSE(encode_jpeg(Picture{}).ok());
  EXPECT_FALSE(encode_jpeg(Picture{65501, 1, std::vector<std::uint8_t>(65501 * 3)}).ok());
}

TEST_F(Pictures, ThumbnailsAreAtMostSoWide) {
  const Picture wide = read(*encode_thumbnail(gradient(1344, 768)));
  EXPECT_EQ(wide.width, 512);
  EXPECT_EQ(wide.height, 293);
  EXPECT_LT(difference(wide, gradient(512, 293)), 4);
  EXPECT_EQ(read(*encode_thumbnail(gradient(96, 200))).width, 96);
  EXPECT_EQ(read(*encode_thumbnail(gradient(2000, 1))).height, 1);
}

// A clip whose colours really are a linear map of its latents.
class Preview : public Pictures {
 protected:
  void SetUp() override {
    plan_.latent_channels = 5;
    plan_.latent_frames = 7;
    plan_.latent_height = 4;
    plan_.latent_width = 6;
    plan_.width = clip_.width = 6 * 16;
    plan_.height = clip_.height = 4 * 16;
    plan_.frames = clip_.frames = 22;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (int i = 0; i < 5 * 7 * 4 * 6; ++i) video_.push_back(normal(random));
    for (int f = 0; f < clip_.frames; ++f)
      for (int y = 0; y < clip_.height; ++y)
        for (int x = 0; x < clip_.width; ++x)
          for (int c = 0; c < 3; ++c) clip_.rgb.push_back(colour(f * 7 / 22, y / 16, x / 16, c));
  }
  [[nodiscard]] std::uint8_t colour(int t, int y, int x, int c) const {
    double out = 128;
    for (int k = 0; k < 5; ++k)
      out += (10 * c - 8 * k) * static_cast<double>(video_[static_cast<std::size_t>(((k * 7 + t) * 4 + y) * 6 + x)]) / 3;
    return static_cast<std::uint8_t>(std::clamp(out, 0.0, 255.0));
  }
  // Of the clip, as its frames come.
  [[nodiscard]] CellColours colours() const {
    CellColours out(plan_);
    for (int i = 0; i < clip_.frames; ++i) out.add(clip_.frame(i));
    EXPECT_TRUE(out.complete());
    return out;
  }
  // The latents of one frame.
  [[nodiscard]] std::vector<float> frame(int t) const {
    std::vector<float> out;
    for (int k = 0; k < 5; ++k)
      for (int i = 0; i < 24; ++i) out.push_back(video_[static_cast<std::size_t>((k * 7 + t) * 24 + i)]);
    return out;
  }
  Plan plan_;
  Clip clip_;
  std::vector<float> video_;
};

TEST_F(Preview, FindsTheMap) {
  PreviewFit fit;
  EXPECT_FALSE(fit.solve().has_value());
  fit.add(plan_, video_, colours());
  const auto map = fit.solve();
  ASSERT_TRUE(map.has_value());
  const Picture shown = read(map->picture(frame(3), 4, 6));
  ASSERT_EQ(shown.width, 24);
  ASSERT_EQ(shown.height, 16);
  double sum = 0;
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 6; ++x)
      for (int c = 0; c < 3; ++c)
        sum += std::abs(shown.rgb[static_cast<std::size_t>(((4 * y + 2) * 24 + 4 * x + 2) * 3 + c)] - colour(3, y, x, c));
  EXPECT_LT(sum / 72, 25) << "JPEG and enlarging blur";
}

TEST_F(Preview, WhatDoesNotBelongTogetherIsLeftOut) {
  PreviewFit fit;
  Plan other = plan_;
  other.width = 80;
  CellColours another(other), too_few(plan_);
  for (int i = 0; i < clip_.frames; ++i) another.add(clip_.frame(i));
  too_few.add(clip_.frame(0));
  fit.add(plan_, video_, another);
  fit.add(plan_, video_, too_few);
  fit.add(plan_, std::span(video_).first(100), colours());
  EXPECT_EQ(fit.clips(), 0);
  fit.add(plan_, video_, colours());
  const auto map = fit.solve();
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(map->picture(std::vector<float>(3), 4, 6), "");
  EXPECT_EQ(map->picture({}, 0, 6), "");
  std::vector<float> wrong = frame(0);
  wrong[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(map->picture(wrong, 4, 6), "") << "a cell that is not finite is black";
  EXPECT_EQ(PreviewMap{}.picture(frame(0), 4, 6), "");
}

TEST_F(Preview, IsKnownToTheNextProcess) {
  const auto cache = folder_.path() / "cache";
  {
    Previews first(cache, "key");
    EXPECT_TRUE(first.map().empty());
    first.learn(plan_, video_, colours());
    EXPECT_FALSE(first.map().empty());
  }
  EXPECT_EQ(Previews(cache, "key").map().channels, 5);
  EXPECT_TRUE(Previews(cache, "another key").map().empty());
  for (const auto& entry : std::filesystem::directory_iterator(cache)) std::filesystem::resize_file(entry.path(), 20);
  EXPECT_TRUE(Previews(cache, "key").map().empty());
}

TEST_F(Preview, ShowsTheEstimateOfTheCleanClip) {
  Previews previews({}, "key");
  previews.learn(plan_, video_, colours());
  int shown = 0;
  std::string last;
  const std::function<void(const std::string&)> show = [&](const std::string& jpeg) {
    ++shown;
    last = jpeg;
  };
  // x = clean - sigma * v
  constexpr float kSigma = 0.7f;
  Latents state, velocity;
  for (std::size_t i = 0; i < video_.size(); ++i) {
    velocity.video.push_back(static_cast<float>(i % 7) - 3);
    state.video.push_back(video_[i] - kSigma * velocity.video[i]);
  }
  PreviewRun run(plan_, previews.map(), show);
  run.after_step(state, velocity, kSigma);
  ASSERT_EQ(shown, 1);
  EXPECT_LT(difference(read(last), read(previews.map().picture(frame(3), 4, 6))), 1);
  run.after_step(state, velocity, kSigma);
  EXPECT_EQ(shown, 1) << "not more than a hundredth of the time";
  PreviewRun none(plan_, PreviewMap{}, show);
  none.after_step(state, velocity, kSigma);
  EXPECT_EQ(shown, 1);
}

}  // namespace
}  // namespace tritium
