#include "model/geometry/canvas.h"
#include "model/geometry/clip_length.h"
#include "model/geometry/patchify.h"
#include "model/geometry/retake_mask.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tritium {
namespace {

template <class T>
void expect_error(const Result<T>& result, const char* field, const char* part) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().field, field) << result.error().text();
  EXPECT_NE(result.error().text().find(part), std::string::npos) << result.error().text();
}

// ---- lengths

TEST(ClipLength, A27_EveryFrameCountIsSnappedUpToTheLattice) {
  for (int requested = 1; requested <= 400; ++requested) {
    const auto clip = clip_length_from_frames(requested);
    ASSERT_TRUE(clip.ok()) << requested;
    EXPECT_TRUE(is_clip_length(clip->frames)) << requested;
    EXPECT_GE(clip->frames, requested);
    EXPECT_LT(clip->frames, std::max(requested, kMinFrames) + kFramesPerClip);
    EXPECT_EQ(clip->video_latents, (clip->frames - 5) / 17 * 5 + 2);
  }
}

TEST(ClipLength, A27_SecondsAreSnappedUpToTheLattice) {
  const int expected[] = {107, 124, 158, 175, 192, 226, 243, 277, 294, 328, 345, 362};  // 4..15 s
  for (int seconds = 4; seconds <= 15; ++seconds) {
    const auto clip = clip_length_from_seconds(seconds);
    ASSERT_TRUE(clip.ok());
    EXPECT_EQ(clip->frames, expected[seconds - 4]) << seconds;
    EXPECT_GE(clip->seconds(), seconds);
  }
}

TEST(ClipLength, A29_TheRuleIs17nPlus5) {
  const std::pair<int, int> cases[] = {{34, 39}, {124, 124}, {168, 175}, {5, 5}, {6, 22}, {22, 22}, {23, 39}};
  for (const auto& [requested, frames] : cases) EXPECT_EQ(clip_length_from_frames(requested)->frames, frames);
}

TEST(ClipLength, PrintedSecondsGiveTheSameClipAgain) {
  for (int frames = kMinFrames; frames <= kMaxFrames; frames += kFramesPerClip) {
    const double exact = clip_length_from_frames(frames)->seconds();
    for (const double seconds : {exact, std::round(exact * 1e5) / 1e5}) {
      const auto clip = clip_length_from_seconds(seconds);
      ASSERT_TRUE(clip.ok());
      EXPECT_EQ(clip->frames, frames);
    }
  }
}

TEST(ClipLength, TrainedRangeIsInformation) {
  EXPECT_FALSE(clip_length_from_frames(107)->trained());
  EXPECT_TRUE(clip_length_from_frames(124)->trained());
  EXPECT_TRUE(clip_length_from_frames(362)->trained());
  EXPECT_FALSE(clip_length_from_frames(363)->trained());
}

TEST(ClipLength, OutOfRangeNamesTheNearestLength) {
  expect_error(clip_length_from_frames(0), "frames", "nearest possible length is 5 frames");
  expect_error(clip_length_from_frames(-7), "frames", "-7");
  expect_error(clip_length_from_frames(3610), "frames", "3609");
  expect_error(clip_length_from_frames(std::numeric_limits<std::int64_t>::max()), "frames", "3609");
  expect_error(clip_length_from_seconds(0), "seconds", "5 frames");
  expect_error(clip_length_from_seconds(-1), "seconds", "-1 s");
  expect_error(clip_length_from_seconds(151), "seconds", "3609 frames");
  expect_error(clip_length_from_seconds(std::numeric_limits<double>::infinity()), "seconds", "inf");
  expect_error(clip_length_from_seconds(std::numeric_limits<double>::quiet_NaN()), "seconds", "nan");
}

TEST(ClipLength, C8_LatentsOffTheLatticeAreRefused) {
  expect_error(clip_length_from_latents(1), "video_latents", "nearest possible length is 2");
  expect_error(clip_length_from_latents(5), "video_latents", "nearest possible length is 7");
  expect_error(clip_length_from_latents(38), "video_latents", "nearest possible length is 37");
  expect_error(clip_length_from_latents(-1), "video_latents", "nearest possible length is 2");
  expect_error(clip_length_from_latents(1'000'000'000'000), "video_latents", "1062");
  expect_error(clip_length_from_latents(37, 206), "audio_latents", "207 expected");
  EXPECT_EQ(clip_length_from_latents(1062)->frames, kMaxFrames);
  EXPECT_EQ(clip_length_from_latents(37, 207)->frames, 124);
}

TEST(ClipLength, ReferenceVideosAreCutDownAndNotLongerThanTheTarget) {
  EXPECT_EQ(*reference_video_frames(360, 124), 124);
  EXPECT_EQ(*reference_video_frames(100, 124), 90);
  EXPECT_EQ(*reference_video_frames(22, 22), 22);
  expect_error(reference_video_frames(21, 124), "reference_video", "at least 22 frames");
  expect_error(reference_video_frames(124, 5), "reference_video", "a target of 5 frames is too short");
  expect_error(reference_video_frames(-3, 124), "reference_video", "-3 frames");
}

// ---- sizes

TEST(Canvas, A32_EveryRatioKeepsItsOrientation) {
  for (int w = 1; w <= 21; ++w) {
    for (int h = 1; h <= 21; ++h) {
      const auto size = canvas_for_ratio(w, h);
      if (w > 4 * h || h > 4 * w) {
        EXPECT_FALSE(size.ok());
        continue;
      }
      ASSERT_TRUE(size.ok()) << w << ":" << h;
      EXPECT_EQ(size->width % kSizeStep, 0);
      EXPECT_EQ(size->height % kSizeStep, 0);
      EXPECT_EQ(*size, (Size{canvas_for_ratio(h, w)->height, canvas_for_ratio(h, w)->width}));
      EXPECT_NEAR(static_cast<double>(size->width) / size->height, static_cast<double>(w) / h, 0.06 * w / h);
    }
  }
}

TEST(Canvas, SidesAreSnappedUp) {
  EXPECT_EQ(*snap_size_up(1, 33), (Size{32, 64}));
  EXPECT_EQ(*snap_size_up(8192, 32), (Size{8192, 32}));
  expect_error(snap_size_up(0, 32), "width", "nearest possible value is 32");
  expect_error(snap_size_up(32, 8193), "height", "nearest possible value is 8192");
}

TEST(Canvas, ExactSizesNameBothNeighbours) {
  EXPECT_EQ(*exact_size(96, 64), (Size{96, 64}));
  expect_error(exact_size(100, 64), "width", "use 96 or 128");
  expect_error(exact_size(96, 31), "height", "outside 32..8192");
}

TEST(Canvas, ImpossibleRatiosAreRefused) {
  expect_error(canvas_for_ratio(5, 1), "aspect_ratio", "nearest possible ratio is 4:1");
  expect_error(canvas_for_ratio(1, 5), "aspect_ratio", "nearest possible ratio is 1:4");
  expect_error(canvas_for_ratio(0, 1), "aspect_ratio", "positive");
  expect_error(canvas_for_ratio(std::numeric_limits<double>::quiet_NaN(), 1), "aspect_ratio", "positive");
  expect_error(canvas_for_ratio(std::numeric_limits<double>::infinity(), 1), "aspect_ratio", "positive");
}

TEST(Canvas, ReferenceImages) {
  const Size canvas{1344, 768};
  EXPECT_EQ(*reference_image_size(1920, 1080, ReferenceFit::short_edge, canvas), (Size{3648, 2048}));
  EXPECT_EQ(*reference_image_size(640, 480, ReferenceFit::match, canvas), (Size{640, 480}));  // not enlarged
  const Size shrunk = *reference_image_size(4000, 3000, ReferenceFit::match, canvas);
  EXPECT_EQ(shrunk, (Size{1184, 864}));
  expect_error(reference_image_size(5, 200, ReferenceFit::short_edge, canvas), "reference_image", "outside 1:4..4:1");
  expect_error(reference_image_size(0, 200, ReferenceFit::match, canvas), "reference_image", "0x200");
  expect_error(reference_video_size(100, 70'000), "reference_video", "70000");
}

TEST(Canvas, CoverFitCoversAndCentres) {
  const CoverFit wide = cover_fit({1920, 1080}, {768, 768});
  EXPECT_EQ(wide.scaled, (Size{1365, 768}));
  EXPECT_EQ(wide.left, 298);
  EXPECT_EQ(wide.top, 0);
  const CoverFit same = cover_fit({96, 64}, {96, 64});
  EXPECT_EQ(same.scaled, (Size{96, 64}));
  EXPECT_EQ(same.left + same.top, 0);
}

// ---- rows

TEST(Patchify, VideoFeaturesAreChannelThenRowThenColumn) {
  const VideoLatentShape shape{2, 2, 4, 6};
  std::vector<float> latent(static_cast<std::size_t>(shape.elements()));
  std::iota(latent.begin(), latent.end(), 0.0f);
  const auto rows = patchify_video(shape, latent);
  ASSERT_TRUE(rows.ok());
  const auto width = static_cast<std::size_t>(shape.row_width());
  // Row of frame 1, patch (1,2), feature channel 1, dy 1, dx 0.
  const std::size_t row = 1 * 6 + 1 * 3 + 2;
  EXPECT_EQ((*rows)[row * width + 1 * 4 + 1 * 2 + 0], latent[((1 * 2 + 1) * 4 + 3) * 6 + 4]);
  EXPECT_EQ(*unpatchify_video(shape, *rows), latent);
}

TEST(Patchify, AudioRowsAreChannelMajor) {
  const AudioLatentShape shape{3, 5};
  std::vector<float> latent(static_cast<std::size_t>(shape.elements()));
  std::iota(latent.begin(), latent.end(), 0.0f);
  const auto rows = patchify_audio(shape, latent);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ((*rows)[(5 + 4) * 3 + 2], latent[(1 * 3 + 2) * 5 + 4]);
  EXPECT_EQ(*unpatchify_audio(shape, *rows), latent);
}

TEST(Patchify, WrongSizesAreRefused) {
  const std::vector<float> values(24);
  expect_error(patchify_video({1, 2, 3, 4}, values), "latents", "even");
  expect_error(patchify_video({1, 2, 2, 4}, values), "latents", "24 values given, the shape needs 16");
  expect_error(patchify_video({1, -1, 2, 4}, values), "latents", "-1");
  expect_error(patchify_video({1, 1, 0, 4}, values), "latents", "even");
  expect_error(unpatchify_audio({3, 5}, values), "latents", "needs 30");
  expect_error(patchify_audio({3, -5}, values), "latents", "impossible");
}

// ---- retake masks

TEST(RetakeMask, ARegionTouchesWholeGroups) {
  const ClipLength clip = *clip_length_from_frames(56);  // 17 latents
  const FrameRegion one[] = {{16, 18}};
  EXPECT_EQ(*video_retake_mask(one, clip, clip.frames), (RetakeMask{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0}));
  const FrameRegion tail[] = {{51, 5000}};
  EXPECT_EQ(*video_retake_mask(tail, clip, clip.frames), (RetakeMask{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
}

TEST(RetakeMask, NothingIsRegeneratedWithoutRegionsExceptWhatTheSourceLacks) {
  const ClipLength clip = *clip_length_from_frames(22);
  EXPECT_EQ(*video_retake_mask({}, clip, clip.frames), (RetakeMask{0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(*video_retake_mask({}, clip, 18), (RetakeMask{0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(*video_retake_mask({}, clip, 0), (RetakeMask{1, 1, 1, 1, 1, 1, 1}));
  const RetakeMask audio = *audio_retake_mask({}, clip, 30);
  EXPECT_EQ(std::accumulate(audio.begin(), audio.end(), 0), 7);
  EXPECT_EQ(audio[29], 0);
  EXPECT_EQ(audio[30], 1);
}

TEST(RetakeMask, BadRegionsAreRefused) {
  const ClipLength clip = *clip_length_from_frames(22);
  const auto video = [&](FrameRegion region) { return video_retake_mask({&region, 1}, clip, 22); };
  const auto audio = [&](SecondsRegion region) { return audio_retake_mask({&region, 1}, clip, 37); };
  expect_error(video({-1, 3}), "retake_frames", "-1..3");
  expect_error(video({3, 3}), "retake_frames", "3..3");
  expect_error(video({22, 30}), "retake_frames", "22 frames");
  expect_error(audio({-0.5, 1}), "retake_seconds", "-0.5");
  expect_error(audio({1, 0.5}), "retake_seconds", "1..0.5");
  expect_error(audio({5, 6}), "retake_seconds", "0.917 s");
  expect_error(audio({std::numeric_limits<double>::quiet_NaN(), 1}), "retake_seconds", "nan");
  EXPECT_TRUE(audio({0.5, std::numeric_limits<double>::infinity()}).ok());
}

}  // namespace
}  // namespace tritium
