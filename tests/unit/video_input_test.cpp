// Videos at 24 frames per second: rates, timestamps, rotation, colour and sound.
#include <algorithm>

#include "media/video_input.h"

#include "base/files.h"
#include "media/frame_clock.h"
#include "media/mp4_writer.h"
#include "unit/media_inputs.h"

namespace tritium {
namespace {

using test::TempFolder;

struct Loaded {
  VideoInput info;
  std::vector<int> numbers;  // of the numbered picture that each frame at 24 per second shows
  Picture first;
};

Result<Loaded> load(const std::filesystem::path& path, const VideoOptions& options = {}) {
  Loaded out;
  auto info = load_video(path, options, [&](const VideoFrame& frame) -> Result<void> {
    EXPECT_EQ(frame.first, static_cast<int>(out.numbers.size()));
    EXPECT_GE(frame.count, 1);
    EXPECT_TRUE(frame.picture.complete());
    if (out.numbers.empty()) out.first = {frame.picture.width, frame.picture.height, {frame.picture.rgb.begin(), frame.picture.rgb.end()}};
    out.numbers.insert(out.numbers.end(), static_cast<std::size_t>(frame.count), test::number_in(frame.picture));
    return {};
  });
  if (!info.ok()) return info.error();
  EXPECT_EQ(info->frames, static_cast<int>(out.numbers.size()));
  EXPECT_EQ(info->width, out.first.width);
  EXPECT_EQ(info->height, out.first.height);
  out.info = std::move(*info);
  return out;
}

// The holding rule for count pictures at num/den per second, in whole numbers: picture i starts at floor(i 24 / f + 1/2).
std::vector<int> held(int count, int num, int den) {
  std::vector<int> out;
  const auto start = [&](std::int64_t i) { return (2 * i * 24 * den + num) / (2 * num); };
  for (int i = 0; i < count; ++i)
    for (std::int64_t slot = start(i); slot < start(i + 1); ++slot) out.push_back(i);
  return out;
}

TEST(VideoInput, FrameClockFollowsTheHoldingRule) {
  for (const auto& [num, den] :
       {std::pair{24000, 1001}, {24, 1}, {25, 1}, {30000, 1001}, {30, 1}, {48, 1}, {50, 1}, {60000, 1001}, {60, 1}, {120, 1}, {10, 1}})
    for (const Fraction tick : {Fraction{1, 1000}, {1, 90000}, {den, num}, {1, 600}}) {
      const FrameClock clock(tick, {num, den});
      for (std::int64_t i = 0; i < 15ll * num / den; ++i) {
        // A container's timestamp: the time in whole ticks, rounded down or to the nearest.
        const auto exact = static_cast<double>(i) * den / num * tick.den / tick.num;
        const std::int64_t expected = (2 * i * 24 * den + num) / (2 * num);
        ASSERT_EQ(clock.slot(std::llround(exact)), expected) << num << "/" << den << " tick 1/" << tick.den << " frame " << i;
        ASSERT_EQ(clock.slot(static_cast<std::int64_t>(exact + 1e-9)), expected)
            << num << "/" << den << " tick 1/" << tick.den << " frame " << i;
      }
    }
  const FrameClock free({1, 1000}, {0, 1});  // no nominal rate: nothing but the timestamps
  for (std::int64_t t = 0; t < 15000; ++t) ASSERT_EQ(free.slot(t), (48 * t + 1000) / 2000) << t;
  EXPECT_EQ(free.slot(-5), 0);
  EXPECT_EQ(FrameClock({1000, 1}, {0, 1}).slot(INT64_MAX), INT64_MAX);  // no such number
  EXPECT_EQ(FrameClock({1, 600}, {30, 1}).nominal_duration(), 20);
  EXPECT_EQ(FrameClock({1, 600}, {0, 1}).nominal_duration(), 1);
}

TEST(VideoInput, A33_EveryRateGives24FramesPerSecond) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  struct Rate {
    int num, den;
  };
  for (const Rate& rate : {Rate{24000, 1001}, Rate{24, 1}, Rate{25, 1}, Rate{30000, 1001}, Rate{30, 1}, Rate{48, 1}, Rate{50, 1},
                           Rate{60000, 1001}, Rate{60, 1}, Rate{25, 2}}) {
    const int count = (5 * rate.num + 2 * rate.den - 1) / (2 * rate.den);  // 2.5 s
    const std::string input = test::numbered_frames(folder, count, fmt::format("{}/{}", rate.num, rate.den));
    test::ffmpeg(folder, input + " -c:v libx264 -preset ultrafast -bf 2 -g 12 a.mp4");
    for (const char* copy : {"a.mkv", "a.mov", "a.ts", "a.flv"}) test::ffmpeg(folder, std::string("-i a.mp4 -c copy ") + copy);
    for (const char* name : {"a.mp4", "a.mkv", "a.mov", "a.ts", "a.flv"}) {
      const auto video = load(folder / name);
      ASSERT_TRUE(video.ok()) << video.error().text();
      EXPECT_EQ(video->numbers, held(count, rate.num, rate.den)) << name << " " << rate.num << "/" << rate.den;
      EXPECT_FALSE(video->info.sound.has_value());
    }
  }
}

TEST(VideoInput, A33_VariableRatesAreResampledByTimestamps) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  // Picture N is shown from 30 N + 55 (N mod 4) ms on: the order of time is not that of a steady rate.
  const int count = 80;
  std::vector<std::int64_t> start;
  for (int i = 0; i < count; ++i) start.push_back(120 * (i / 4) + std::array{0, 5, 55, 115}[static_cast<std::size_t>(i % 4)]);
  test::ffmpeg(folder, test::numbered_frames(folder, count, "25") +
                           " -vf \"settb=1/1000,setpts='120*floor(N/4)+5*eq(mod(N,4),1)+55*eq(mod(N,4),2)+115*eq(mod(N,4),3)'\""
                           " -fps_mode passthrough -enc_time_base 1/1000 -c:v libx264 -preset ultrafast a.mkv");
  test::ffmpeg(folder, "-i a.mkv -c copy -video_track_timescale 1000 a.mp4");
  std::vector<int> expected;
  for (int i = 0; i + 1 < count; ++i)
    for (auto slot = (48 * start[static_cast<std::size_t>(i)] + 1000) / 2000;
         slot < (48 * start[static_cast<std::size_t>(i) + 1] + 1000) / 2000; ++slot)
      expected.push_back(i);
  for (const char* name : {"a.mkv", "a.mp4"}) {
    const auto video = load(folder / name);
    ASSERT_TRUE(video.ok()) << video.error().text();
    ASSERT_GE(video->numbers.size(), expected.size()) << name;
    EXPECT_LE(video->numbers.size(), expected.size() + 2) << name;  // the last picture lasts as long as the container says
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), video->numbers.begin())) << name;
  }
}

TEST(VideoInput, TimestampsThatDoNotStartAtZero) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  test::ffmpeg(folder, test::numbered_frames(folder, 96, "24") + " -c:v libx264 -preset ultrafast -bf 2 -g 12 a.mp4");
  std::vector<int> whole(96), from_18;
  for (int i = 0; i < 96; ++i) whole[static_cast<std::size_t>(i)] = i;
  from_18.assign(whole.begin() + 18, whole.end());
  test::ffmpeg(folder, "-i a.mp4 -c copy -output_ts_offset 100 late.ts");
  test::ffmpeg(folder, "-itsoffset 7 -i a.mp4 -c copy late.mkv");
  test::ffmpeg(folder, "-itsoffset 7 -i a.mp4 -c copy late.mp4");
  for (const char* name : {"late.ts", "late.mkv", "late.mp4"}) {
    const auto video = load(folder / name);
    ASSERT_TRUE(video.ok()) << video.error().text();
    EXPECT_EQ(video->numbers, whole) << name;
  }
  // Cut without encoding: starts at the key picture 12, and an edit list says that it is shown from 18 on.
  test::ffmpeg(folder, "-ss 0.75 -i a.mp4 -c copy cut.mp4");
  const auto cut = load(folder / "cut.mp4");
  ASSERT_TRUE(cut.ok()) << cut.error().text();
  EXPECT_EQ(cut->numbers, from_18);
  // A raw stream has no timestamps at all; its rate is in the stream.
  test::ffmpeg(folder, "-i a.mp4 -c copy -bsf:v h264_mp4toannexb a.h264");
  const auto raw = load(folder / "a.h264");
  ASSERT_TRUE(raw.ok()) << raw.error().text();
  EXPECT_EQ(raw->numbers, whole);
}

TEST(VideoInput, HeadersThatLieAboutTheNumberOfFrames) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  test::ffmpeg(folder, test::numbered_frames(folder, 72, "24") + " -c:v mpeg4 -q:v 2 -g 1 a.avi");
  const std::string whole = *read_file(folder / "a.avi");
  const std::size_t total = whole.find("avih") + 8 + 16, length = whole.find("strh") + 8 + 32;
  for (const std::string& lie : {std::string("\1\0\0\0", 4), std::string("\0\0\0\0", 4), std::string("\x50\0\0\0", 4)}) {
    std::string bytes = whole;
    bytes.replace(total, 4, lie);
    folder.write("a.avi", bytes);
    const auto video = load(folder / "a.avi");
    ASSERT_TRUE(video.ok()) << video.error().text();
    EXPECT_EQ(video->numbers, held(72, 24, 1));
    bytes.replace(length, 4, lie);
    folder.write("a.avi", bytes);
    const auto other = load(folder / "a.avi");
    if (other.ok()) {
      EXPECT_EQ(other->numbers, held(72, 24, 1));
    } else {
      test::expect_clear(other.error(), folder / "a.avi");
    }
  }
}

// Overwrites the display matrix of the first track of an MP4 file (16.16 numbers, the third column 2.30).
std::string with_matrix(const std::string& mp4, const std::array<std::int32_t, 4>& m) {
  const std::array<std::int32_t, 9> all = {m[0], m[1], 0, m[2], m[3], 0, 0, 0, 1 << 30};
  std::string bytes;
  for (const std::int32_t value : all)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(static_cast<std::uint32_t>(value) >> shift & 0xff);
  std::string out = mp4;
  out.replace(mp4.find("tkhd") + 4 + 40, bytes.size(), bytes);
  return out;
}

TEST(VideoInput, RotationMarksAreApplied) {
  const TempFolder folder;
  Clip clip;
  clip.width = 96;
  clip.height = 64;
  clip.frames = 24;
  for (int i = 0; i < clip.frames; ++i) {
    const Picture picture = test::corner_picture(96, 64);
    clip.rgb.insert(clip.rgb.end(), picture.rgb.begin(), picture.rgb.end());
  }
  ASSERT_TRUE(write_mp4(clip, folder / "a.mp4").ok());
  const std::string whole = *read_file(folder / "a.mp4");
  constexpr std::int32_t kOne = 1 << 16;
  // In EXIF's numbering, 1..8; a phone held upright writes the sixth.
  const std::array<std::array<std::int32_t, 4>, 8> matrices = {{{kOne, 0, 0, kOne},
                                                                {-kOne, 0, 0, kOne},
                                                                {-kOne, 0, 0, -kOne},
                                                                {kOne, 0, 0, -kOne},
                                                                {0, kOne, kOne, 0},
                                                                {0, kOne, -kOne, 0},
                                                                {0, -kOne, -kOne, 0},
                                                                {0, -kOne, kOne, 0}}};
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    folder.write("b.mp4", with_matrix(whole, matrices[i]));
    const auto video = load(folder / "b.mp4", {.min_seconds = 1});
    ASSERT_TRUE(video.ok()) << video.error().text();
    EXPECT_EQ(test::corners(video->first), test::turned_corners()[i + 1]) << "orientation " << i + 1;
    EXPECT_EQ(video->info.width, i >= 4 ? 64 : 96);
    EXPECT_EQ(video->info.display_width, i >= 4 ? 64 : 96);
  }
  folder.write("b.mp4", with_matrix(whole, {46341, 46341, -46341, 46341}));
  const auto slanted = load(folder / "b.mp4", {.min_seconds = 1});
  ASSERT_FALSE(slanted.ok());
  test::expect_clear(slanted.error(), folder / "b.mp4");
}

TEST(VideoInput, PixelsThatAreNotSquare) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  const std::string input = test::numbered_frames(folder, 48, "24");
  for (const auto& [aspect, width, height] : {std::tuple{"4/3", 128, 64}, {"1/2", 96, 128}, {"1/1", 96, 64}}) {
    test::ffmpeg(folder, input + " -vf setsar=" + aspect + " -c:v libx264 -preset ultrafast a.mp4");
    const auto video = load(folder / "a.mp4");
    ASSERT_TRUE(video.ok()) << video.error().text();
    EXPECT_EQ(video->info.width, 96);
    EXPECT_EQ(video->info.height, 64);
    EXPECT_EQ(video->info.display_width, width);
    EXPECT_EQ(video->info.display_height, height);
  }
}

TEST(VideoInput, ColoursFollowTheMarksOfTheFile) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  // Four colours, as large fields so that chroma subsampling does not matter; 96 lines count as standard definition.
  const Picture corners = test::corner_picture(192, 96);
  folder.write("c.rgb", std::string(corners.rgb.begin(), corners.rgb.end()));
  const std::string input = "-stream_loop 47 -f rawvideo -pixel_format rgb24 -video_size 192x96 -framerate 24 -i c.rgb ";
  struct Case {
    std::string name, arguments, encoder;
  };
  const std::string to = "-vf scale=flags=accurate_rnd+full_chroma_int:out_color_matrix=";
  const std::vector<Case> cases = {
      {"unmarked.mp4", to + "bt601:out_range=tv -pix_fmt yuv420p -c:v libx264 -crf 4", "libx264"},
      {"bt709.mp4", to + "bt709:out_range=tv -pix_fmt yuv420p -colorspace bt709 -color_range tv -c:v libx264 -crf 4", "libx264"},
      {"full.mp4", to + "bt709:out_range=pc -pix_fmt yuv444p -colorspace bt709 -color_range pc -c:v libx264 -crf 4", "libx264"},
      {"bt2020.mp4",
       to + "bt2020:out_range=tv -pix_fmt yuv420p10le -colorspace bt2020nc -color_primaries bt2020 -color_trc smpte2084 "
            "-color_range tv -c:v libx265 -crf 4 -x265-params log-level=none",
       "libx265"},
      {"hevc10.mp4",
       to + "bt709:out_range=tv -pix_fmt yuv420p10le -colorspace bt709 -color_range tv -c:v libx265 -crf 4 "
            "-x265-params log-level=none -tag:v hvc1",
       "libx265"},
      {"rgb.mkv", "-c:v libx264rgb -crf 4", "libx264rgb"},
      {"ffv1_16.mkv", "-pix_fmt gbrp16le -c:v ffv1", "ffv1"},
      {"prores.mov", to + "bt709,setparams=colorspace=bt709 -colorspace bt709 -pix_fmt yuv422p10le -c:v prores_ks", "prores_ks"},
      {"vp9.webm",
       to + "bt709 -colorspace bt709 -color_range tv -pix_fmt yuv420p -c:v libvpx-vp9 -crf 10 -b:v 0 -deadline realtime -cpu-used 8",
       "libvpx-vp9"},
  };
  for (const Case& c : cases) {
    if (!test::has_encoder(c.encoder)) {
      std::printf("no encoder '%s': %s is left out\n", c.encoder.c_str(), c.name.c_str());
      continue;
    }
    test::ffmpeg(folder, input + c.arguments + " " + c.name);
    const auto video = load(folder / c.name);
    ASSERT_TRUE(video.ok()) << video.error().text();
    EXPECT_EQ(video->info.frames, 48) << c.name;
    int worst = 0;
    for (const int y : {24, 72})
      for (const int x : {48, 144})
        for (int i = 0; i < 3; ++i) worst = std::max(worst, std::abs(test::pixel(video->first, x, y)[i] - test::pixel(corners, x, y)[i]));
    EXPECT_LE(worst, 4) << c.name;
  }
}

TEST(VideoInput, AnimatedGif) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  test::ffmpeg(folder, test::numbered_frames(folder, 30, "10") + " -final_delay 10 a.gif");
  const auto video = load(folder / "a.gif");
  ASSERT_TRUE(video.ok()) << video.error().text();
  EXPECT_EQ(video->numbers, held(30, 10, 1));
  const std::string whole = *read_file(folder / "a.gif");
  for (const std::size_t keep : {whole.size() - 1, whole.size() / 2, whole.size() / 3}) {
    folder.write("a.gif", whole.substr(0, keep));
    const auto part = load(folder / "a.gif");
    ASSERT_FALSE(part.ok());
    test::expect_clear(part.error(), folder / "a.gif");
  }
}

}  // namespace
}  // namespace tritium
