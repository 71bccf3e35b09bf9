#include "model/dit/packing.h"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>

namespace tritium {
namespace {

constexpr float kVideoTime = 0.1f, kAudioTime = 0.3f;

PackingRequest small_request() {
  PackingRequest request;
  request.text_tags = {Modality::text, Modality::video, Modality::video, Modality::text};
  request.video = {24, 7, 4, 6};
  request.audio_latents = 37;
  return request;
}

Reference image() { return {ReferenceKind::image, {24, 1, 8, 4}, 0}; }
Reference video(int sound) { return {ReferenceKind::video, {24, 7, 2, 4}, sound}; }
Reference sound(int latents) { return {ReferenceKind::audio, {}, latents}; }

void expect_error(const PackingRequest& request, const char* field, const char* part) {
  const auto layout = make_layout(request);
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.error().code, ErrorCode::usage);
  EXPECT_EQ(layout.error().field, field) << layout.error().text();
  EXPECT_NE(layout.error().text().find(part), std::string::npos) << layout.error().text();
}

// Runs must cover all rows without gaps and agree with the index per row and the tags.
void expect_consistent(const PackedLayout& layout, const RowTimesteps& times) {
  ASSERT_EQ(times.index.size(), static_cast<std::size_t>(layout.rows()));
  int next = 0;
  for (std::size_t r = 0; r < times.runs.size(); ++r) {
    const ModulationRun& run = times.runs[r];
    EXPECT_EQ(run.first, next);
    EXPECT_GT(run.rows, 0);
    next += run.rows;
    for (int row = run.first; row < next; ++row) {
      EXPECT_EQ(times.index[static_cast<std::size_t>(row)], run.timestep);
      EXPECT_EQ(layout.tags[static_cast<std::size_t>(row)], run.modality);
    }
    if (r > 0) { EXPECT_NE(times.runs[r - 1].table_row(), run.table_row()); }
  }
  EXPECT_EQ(next, layout.rows());
}

float time_of(const RowTimesteps& times, int row) { return times.values[times.index[static_cast<std::size_t>(row)]]; }

TEST(Packing, SegmentsFollowTheRequest) {
  PackingRequest request = small_request();
  request.references = {sound(9), image(), video(0), video(12)};
  const auto layout = make_layout(request);
  ASSERT_TRUE(layout.ok()) << layout.error().text();
  const std::vector<Segment> expected{{RowRole::text, -1, 0, 4},
                                      {RowRole::reference_audio, 0, 4, 18},
                                      {RowRole::reference_visual, 1, 22, 8},
                                      {RowRole::reference_visual, 2, 30, 14},
                                      {RowRole::reference_audio, 3, 44, 24},
                                      {RowRole::reference_visual, 3, 68, 14},
                                      {RowRole::target_audio, -1, 82, 74},
                                      {RowRole::target_video, -1, 156, 42}};
  EXPECT_EQ(layout->segments, expected);
  EXPECT_EQ(layout->rows(), 198);
  EXPECT_EQ(layout->positions.size(), 198u);
  EXPECT_EQ(visual_rows(*layout).size() + audio_rows(*layout).size() + text_rows(*layout).size(), 198u);
  EXPECT_EQ(*packed_segments(request), expected);
}

TEST(Packing, OneTextRow) {
  PackingRequest request = small_request();
  request.text_tags = {Modality::text};
  const auto layout = make_layout(request);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->positions[0], (Position{0, 0, 0}));
  EXPECT_EQ(layout->positions[1][0], 1.0f);  // the target starts at time 1
}

TEST(Packing, D2_ChannelsOfSoundSitAtTheEdgesOfTheirPicture) {
  PackingRequest request = small_request();
  request.references = {sound(3), video(3)};
  const auto layout = make_layout(request);
  ASSERT_TRUE(layout.ok());
  const auto target = spatial_axis(6, 4, 6), own = spatial_axis(4, 2, 4);
  const auto at = [&](int row) { return layout->positions[static_cast<std::size_t>(row)]; };
  EXPECT_EQ(at(4), (Position{4, 0, static_cast<float>(target.front())}));
  EXPECT_EQ(at(4 + 3), (Position{4, 0, static_cast<float>(target.back())}));
  EXPECT_EQ(at(10), (Position{7, 0, static_cast<float>(own.front())}));
  EXPECT_EQ(at(13), (Position{7, 0, static_cast<float>(own.back())}));
}

TEST(Packing, KeyframesAreTimedByPixelFrame) {
  PackingRequest request = small_request();  // 22 frames, text of 4 rows
  request.keyframes = {0, kLastFrame, 21, 10};
  const auto layout = make_layout(request);
  ASSERT_TRUE(layout.ok());
  const auto time = [&](std::size_t k) { return layout->positions[static_cast<std::size_t>(layout->segments[k + 1].first)][0]; };
  EXPECT_EQ(time(0), 4.0f);
  EXPECT_EQ(time(1), 39.0f);  // 4 + 21*5/3
  EXPECT_EQ(time(2), 39.0f);
  EXPECT_FLOAT_EQ(time(3), 4.0f + 50.0f / 3.0f);
}

TEST(Packing, KeyframesTogetherWithReferencesAreTimedFromTheTarget) {
  PackingRequest request = small_request();
  request.keyframes = {0};
  request.references = {sound(9), image()};
  const auto layout = make_layout(request);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->segments[1].role, RowRole::keyframe);
  EXPECT_EQ(layout->positions[4][0], 14.0f);  // 4 text rows + 9 + 1
  EXPECT_EQ(layout->positions[static_cast<std::size_t>(layout->target_audio().first)][0], 14.0f);
}

TEST(Packing, GridsAreCentredAndScaledByArea) {
  const auto square = spatial_axis(64, 64, 64);
  EXPECT_EQ(square.front(), 0.0);
  EXPECT_EQ(square.size(), 32u);
  EXPECT_EQ(square.back(), 31.0);
  EXPECT_LT(spatial_axis(52, 30, 52).front(), 0.0);
}

TEST(Packing, BadRequestsAreRefused) {
  PackingRequest request = small_request();
  request.text_tags.clear();
  expect_error(request, "prompt", "no tokens");
  request = small_request();
  request.text_tags[1] = Modality::audio;
  expect_error(request, "prompt", "tagged as audio");
  request = small_request();
  request.video.height = 5;
  expect_error(request, "video", "even");
  request.video = {24, 0, 4, 6};
  expect_error(request, "video", "0 frames");
  request = small_request();
  request.audio_latents = 0;
  expect_error(request, "audio", "length 0");
  request = small_request();
  request.keyframes = {22};
  expect_error(request, "keyframe", "outside 0..21");
  request.keyframes = {-2};
  expect_error(request, "keyframe", "-2");
  request = small_request();
  request.video = {24, 100'000, 16384, 16384};
  expect_error(request, "video", "more than a sequence can have");
}

TEST(Packing, BadReferencesAreRefused) {
  PackingRequest request = small_request();
  request.references = {image(), sound(0)};
  expect_error(request, "reference", "reference 2 (audio)");
  request.references = {{ReferenceKind::audio, {24, 1, 2, 2}, 3}};
  expect_error(request, "reference", "no frames");
  request.references = {{ReferenceKind::image, {24, 2, 2, 2}, 0}};
  expect_error(request, "reference", "one frame and no sound");
  request.references = {{ReferenceKind::video, {24, 0, 2, 2}, 5}};
  expect_error(request, "reference", "at least one frame");
  request.references = {{ReferenceKind::video, {24, 2, 2, 2}, -5}};
  expect_error(request, "reference", "-5");
  request.references = {{ReferenceKind::image, {24, 1, 3, 2}, 0}};
  expect_error(request, "reference", "even");
}

TEST(Timesteps, EachKindOfRowHasItsTime) {
  PackingRequest request = small_request();
  request.references = {video(2)};
  const auto layout = make_layout(request);
  ASSERT_TRUE(layout.ok());
  const auto times = assign_timesteps(*layout, kVideoTime, kAudioTime);
  ASSERT_TRUE(times.ok());
  expect_consistent(*layout, *times);
  EXPECT_EQ(times->values, (std::vector<float>{kVideoTime, kAudioTime, 0.999f, 1.0f}));
  EXPECT_EQ(time_of(*times, 1), kVideoTime);  // vision token in the text
  EXPECT_EQ(time_of(*times, 4), 1.0f);        // reference sound
  EXPECT_EQ(time_of(*times, 8), 0.999f);      // reference video
  EXPECT_EQ(time_of(*times, layout->target_audio().first), kAudioTime);
  EXPECT_EQ(time_of(*times, layout->target_video().first), kVideoTime);
  // text, vision, text, reference sound, reference video, target sound, target video
  EXPECT_EQ(times->runs.size(), 7u);
  EXPECT_EQ(times->runs[1].table_row(), 0);
  EXPECT_EQ(times->runs[2].table_row(), 1);
}

TEST(Timesteps, LateStepsUseTheLargerTime) {
  PackingRequest request = small_request();
  request.keyframes = {0};
  const auto layout = make_layout(request);
  const auto times = assign_timesteps(*layout, 0.9995f, 0.9998f);
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->values, (std::vector<float>{0.9995f, 0.9998f}));
  EXPECT_EQ(time_of(*times, 4), 0.9995f);
}

TEST(Timesteps, KeptRowsCountAsClean) {
  const auto layout = make_layout(small_request());
  const RetakeMask none(37, 0);
  RetakeMask sound = none;
  sound[5] = 1;
  const auto times = assign_timesteps(*layout, kVideoTime, kAudioTime, {{1, 0, 0, 1, 1, 1, 1}, sound});
  ASSERT_TRUE(times.ok());
  expect_consistent(*layout, *times);
  const int audio = layout->target_audio().first, video_first = layout->target_video().first;
  EXPECT_EQ(time_of(*times, audio + 4), 1.0f);
  EXPECT_EQ(time_of(*times, audio + 5), kAudioTime);
  EXPECT_EQ(time_of(*times, audio + 37 + 5), kAudioTime);
  EXPECT_EQ(time_of(*times, video_first), kVideoTime);
  EXPECT_EQ(time_of(*times, video_first + 6), 1.0f);
  EXPECT_EQ(time_of(*times, video_first + 17), 1.0f);
  EXPECT_EQ(time_of(*times, video_first + 18), kVideoTime);
}

TEST(Timesteps, EqualTimesAreOneEntry) {
  const auto layout = make_layout(small_request());
  const auto times = assign_timesteps(*layout, 0, 0);
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->values, std::vector<float>{0});
  expect_consistent(*layout, *times);
}

TEST(Timesteps, BadInputIsRefused) {
  const auto layout = make_layout(small_request());
  const auto mask = assign_timesteps(*layout, 0, 0, {{1, 1}, {}});
  ASSERT_FALSE(mask.ok());
  EXPECT_NE(mask.error().text().find("video mask has 2 values, the latent has 7"), std::string::npos) << mask.error().text();
  const auto nan = assign_timesteps(*layout, std::numeric_limits<float>::quiet_NaN(), 0);
  ASSERT_FALSE(nan.ok());
  EXPECT_NE(nan.error().text().find("finite"), std::string::npos) << nan.error().text();
}

}  // namespace
}  // namespace tritium
