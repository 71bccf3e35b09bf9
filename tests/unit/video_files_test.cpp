// The sound of videos, limits, and videos that are broken or not what they claim to be.
#include "media/video_input.h"

#include "base/files.h"
#include "base/system.h"
#include "media/input_limits.h"
#include "media/mp4_writer.h"
#include "unit/media_inputs.h"

#include <random>

namespace tritium {
namespace {

using test::TempFolder;

const VideoSink kIgnore = [](const VideoFrame&) -> Result<void> { return {}; };

void expect_refused(const std::filesystem::path& path, const VideoOptions& options = {}) {
  const auto video = load_video(path, options, kIgnore);
  ASSERT_FALSE(video.ok()) << path;
  test::expect_clear(video.error(), path);
}

// 3 s of pictures as pictures.mp4.
void make_pictures(const TempFolder& folder) {
  test::ffmpeg(folder, test::numbered_frames(folder, 72, "24") + " -c:v libx264 -preset ultrafast -g 24 pictures.mp4");
}

// The sound from `begin` on, in samples, is the tones of media_inputs.h: the first channel left, the second right.
void expect_tones(const StereoSound& sound, int left_hertz, int right_hertz, std::size_t begin = 0) {
  const auto part = [&](const std::vector<float>& channel) {
    const auto tenth = static_cast<std::size_t>(sound.sample_rate / 10);
    return std::span(channel).subspan(begin + tenth, (channel.size() - begin - 2 * tenth) / tenth * tenth);
  };
  EXPECT_NEAR(test::amplitude(part(sound.left), left_hertz, sound.sample_rate), 0.5, 0.02);
  EXPECT_NEAR(test::amplitude(part(sound.right), right_hertz, sound.sample_rate), 0.5, 0.02);
  if (left_hertz == right_hertz) return;
  EXPECT_LT(test::amplitude(part(sound.left), right_hertz, sound.sample_rate), 0.01);
}

TEST(VideoFiles, SoundOfEveryLayoutAndRate) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  make_pictures(folder);
  struct Case {
    std::string layout;
    int channels, rate;
    std::string codec, name;
    std::size_t
        slack;  // samples that the last packet of the codec may add or leave out; AVI, without times of its own, may start a picture late
  };
  for (const Case& c : {Case{"mono", 1, 44100, "aac", "a.mp4", 0}, Case{"stereo", 2, 48000, "aac", "a.mp4", 0},
                        Case{"5.1", 6, 48000, "flac", "a.mkv", 0}, Case{"5.1", 6, 48000, "aac", "a.mp4", 0},
                        Case{"stereo", 2, 22050, "pcm_s16le", "a.mov", 0}, Case{"mono", 1, 8000, "pcm_u8", "a.avi", 8000 / 24 + 1},
                        Case{"7.1", 8, 96000, "pcm_s24le", "a.mov", 0}, Case{"stereo", 2, 48000, "libopus", "a.webm", 400}}) {
    if (!test::has_encoder(c.codec)) {
      std::printf("no encoder '%s'\n", c.codec.c_str());
      continue;
    }
    const std::string pictures = c.name == "a.webm" ? "-c:v libvpx-vp9 -deadline realtime -cpu-used 8" : "-c:v copy";
    test::ffmpeg(folder, "-i pictures.mp4 " + test::tones(c.channels, c.rate, 3, 500, c.layout) + " " + pictures + " -c:a " + c.codec +
                             " -b:a 256k " + c.name);
    const auto video = load_video(folder / c.name, {}, kIgnore);
    ASSERT_TRUE(video.ok()) << video.error().text();
    ASSERT_TRUE(video->sound.has_value()) << c.name;
    EXPECT_EQ(video->sound->sample_rate, c.rate);
    EXPECT_EQ(video->sound->left.size(), video->sound->right.size());
    EXPECT_NEAR(static_cast<double>(video->sound->left.size()), 3.0 * c.rate, static_cast<double>(c.slack)) << c.name << " " << c.layout;
    expect_tones(*video->sound, 500, c.channels == 1 ? 500 : 1000);
    const auto silent = load_video(folder / c.name, {.sound = false}, kIgnore);
    ASSERT_TRUE(silent.ok());
    EXPECT_FALSE(silent->sound.has_value());
  }
}

TEST(VideoFiles, SoundIsMovedToThePictures) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  make_pictures(folder);
  const std::string tone = test::tones(2, 48000, 3, 500, "stereo");
  const auto load = [&](const std::string& arguments) {
    test::ffmpeg(folder, arguments + " -c:v copy -c:a pcm_s16le a.mov");
    auto video = load_video(folder / "a.mov", {}, kIgnore);
    EXPECT_TRUE(video.ok()) << video.error().text();
    return std::move(video->sound);
  };
  const auto late = load("-i pictures.mp4 -itsoffset 1 " + tone);  // one second of silence, then two of the tone
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->left.size(), 144000u);
  for (std::size_t i = 0; i < 47000; ++i) ASSERT_EQ(late->left[i], 0.0f);
  expect_tones(*late, 500, 1000, 48000);

  const auto early = load("-itsoffset 1 -i pictures.mp4 " + tone);  // its first second is before the pictures
  ASSERT_TRUE(early.has_value());
  EXPECT_EQ(early->left.size(), 96000u);
  expect_tones(*early, 500, 1000);

  const auto longer = load("-i pictures.mp4 " + test::tones(2, 48000, 7, 500, "stereo"));
  ASSERT_TRUE(longer.has_value());
  EXPECT_EQ(longer->left.size(), 144000u);
  EXPECT_FALSE(load("-i pictures.mp4 -itsoffset 5 " + tone).has_value());  // begins after the last picture
}

TEST(VideoFiles, LengthIsLimited) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  const auto make = [&](const std::string& name, double seconds) {
    test::ffmpeg(folder, fmt::format("-f lavfi -i color=c=blue:s=64x64:r=24:d={} -c:v libx264 -preset ultrafast {}", seconds, name));
  };
  make("long.mp4", 16);
  make("limit.mp4", 15);
  make("short.mp4", 1.9);
  make("two.mp4", 2);
  for (const char* name : {"long", "limit", "short", "two"})
    for (const char* other : {"mkv", "ts"}) test::ffmpeg(folder, fmt::format("-i {0}.mp4 -c copy {0}.{1}", name, other));
  for (const char* other : {"mp4", "mkv", "ts"}) {
    expect_refused(folder / (std::string("long.") + other));
    expect_refused(folder / (std::string("short.") + other));
    for (const auto& [name, frames] : {std::pair{"limit.", 360}, {"two.", 48}}) {
      const auto video = load_video(folder / (std::string(name) + other), {}, kIgnore);
      ASSERT_TRUE(video.ok()) << video.error().text();
      EXPECT_EQ(video->frames, frames);
    }
    int seen = 0;
    const VideoSink count = [&](const VideoFrame& frame) -> Result<void> {
      seen += frame.count;
      return {};
    };
    const auto first = load_video(folder / (std::string("limit.") + other), {.keep_frames = 30}, count);
    ASSERT_TRUE(first.ok()) << first.error().text();
    EXPECT_EQ(first->frames, 30);
    EXPECT_EQ(seen, 30);
  }
  EXPECT_NE(load_video(folder / "long.mp4", {}, kIgnore).error().message.find("16.00 s"), std::string::npos);
  EXPECT_NE(load_video(folder / "short.mp4", {}, kIgnore).error().message.find("1.9"), std::string::npos);

  CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(load_video(folder / "two.mp4", {.cancel = &cancel}, kIgnore).error().code, ErrorCode::interrupted);
  CancelToken later;  // while frames are coming
  const VideoSink cancelling = [&](const VideoFrame&) -> Result<void> {
    later.cancel();
    return {};
  };
  EXPECT_EQ(load_video(folder / "limit.mp4", {.cancel = &later}, cancelling).error().code, ErrorCode::interrupted);
  const VideoSink failing = [](const VideoFrame&) -> Result<void> { return Error{ErrorCode::device, "no", "", ""}; };
  EXPECT_EQ(load_video(folder / "two.mp4", {}, failing).error().code, ErrorCode::device);
}

TEST(VideoFiles, CountsAreLimited) {
  EXPECT_TRUE(check_reference_counts({}).ok());
  EXPECT_TRUE(check_reference_counts({9, 2, 1}).ok());
  EXPECT_TRUE(check_reference_counts({6, 3, 3}).ok());
  for (const ReferenceCounts& counts : {ReferenceCounts{10, 0, 0}, {0, 4, 0}, {1, 0, 4}, {9, 3, 1}, {0, 0, 1}, {-1, 0, 0}})
    EXPECT_EQ(check_reference_counts(counts).error().code, ErrorCode::usage);
  const std::array<int, 3> fits = {120, 120, 120}, too_long = {120, 120, 121};
  EXPECT_TRUE(check_total_video_length(fits).ok());
  EXPECT_EQ(check_total_video_length(too_long).error().code, ErrorCode::usage);
}

TEST(VideoFiles, LargePicturesAreNotKept) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  test::ffmpeg(folder, "-f lavfi -i color=c=green:s=4096x2160:r=24:d=2.5 -c:v libx264 -preset ultrafast -x264-params threads=2 a.mp4");
  const auto before = peak_resident_bytes();
  const auto video = load_video(folder / "a.mp4", {}, kIgnore);
  ASSERT_TRUE(video.ok()) << video.error().text();
  EXPECT_EQ(video->width, 4096);
  EXPECT_EQ(video->frames, 60);
  EXPECT_LT(peak_resident_bytes() - before, 700u << 20);  // 60 pictures take 1519 MiB
}

TEST(VideoFiles, WhatIsNoVideoIsRefused) {
  const TempFolder folder;
  ASSERT_TRUE(write_mp4(test::moving_disc(72), folder / "good.mp4").ok());
  std::mt19937 random(3);
  std::string noise(100000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  const std::string folder_name = folder.path().string();
  const std::map<std::string, std::string> files = {
      {"empty.mp4", ""},
      {"text.mp4", "this is not a video\n"},
      {"noise.mp4", noise},
      // Everything that names another file, here one that could be read.
      {"list.m3u8", "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\ngood.mp4\n#EXT-X-ENDLIST\n"},
      {"list.mp4", "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\nfile://" + folder_name + "/good.mp4\n#EXT-X-ENDLIST\n"},
      {"net.mp4", "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n"},
      {"concat.mp4", "ffconcat version 1.0\nfile '" + folder_name + "/good.mp4'\n"},
      {"dash.mp4", "<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\"><Period><AdaptationSet><Representation><BaseURL>" +
                       folder_name + "/good.mp4</BaseURL></Representation></AdaptationSet></Period></MPD>"},
      {"session.sdp", "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n"},
  };
  for (const auto& [name, content] : files) {
    folder.write(name, content);
    expect_refused(folder / name);
  }
  ASSERT_EQ(::mkfifo((folder / "pipe.mp4").c_str(), 0600), 0);
  expect_refused(folder / "pipe.mp4");
  expect_refused(folder / "missing.mp4");
  expect_refused(folder.path());
  expect_refused("/dev/zero");
  for (const char* address : {"http://127.0.0.1:9/a.mp4", "tcp://127.0.0.1:9", "data:video/mp4;base64,AAAA"}) expect_refused(address);
  expect_refused("concat:" + (folder / "good.mp4").string());
  expect_refused("file:" + (folder / "good.mp4").string());
  EXPECT_TRUE(load_video(folder / "good.mp4", {}, kIgnore).ok());
}

TEST(VideoFiles, SoundFilesAndStillPicturesAreNoVideo) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  make_pictures(folder);
  test::ffmpeg(folder, "-i pictures.mp4 -frames:v 1 a.png");
  test::ffmpeg(folder, test::tones(2, 44100, 3, 500, "stereo") + " a.wav");
  test::ffmpeg(folder, test::tones(2, 44100, 3, 500, "stereo") + " -i a.png -map 0 -map 1 -c:v png -disposition:v attached_pic cover.mp3");
  for (const char* name : {"a.png", "a.wav", "cover.mp3"}) expect_refused(folder / name);
}

// Formats that say how long they are. Each piece is refused, or is as long as the whole.
TEST(VideoFiles, B1_TruncatedFilesAreRefused) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  make_pictures(folder);
  test::ffmpeg(folder, "-i pictures.mp4 " + test::tones(2, 48000, 3, 500, "stereo") + " -c:v copy -c:a aac -movflags faststart a.mp4");
  test::ffmpeg(folder, "-i a.mp4 -c copy a.mkv");
  test::ffmpeg(folder, "-i a.mp4 -c copy b.mov");
  test::ffmpeg(folder, "-i a.mp4 -c:v mpeg4 -c:a libmp3lame a.avi");
  test::ffmpeg(folder, "-i a.mp4 -an -r 12 a.gif");
  for (const char* name : {"a.mp4", "b.mov", "a.mkv", "a.avi", "a.gif"}) {
    const std::string whole = *read_file(folder / name);
    const auto complete = load_video(folder / name, {}, kIgnore);
    ASSERT_TRUE(complete.ok()) << complete.error().text();
    int refused = 0, rounds = 0;
    for (std::size_t keep = 0; keep < whole.size(); keep += std::max<std::size_t>(1, whole.size() / 23), ++rounds) {
      const auto path = folder.write("part", whole.substr(0, keep));
      const auto part = load_video(path, {}, kIgnore);
      if (part.ok()) {
        EXPECT_EQ(part->frames, complete->frames) << name << " " << keep << " of " << whole.size();
      } else {
        test::expect_clear(part.error(), path);
        ++refused;
      }
    }
    EXPECT_GE(refused, rounds - 1) << name;
  }
}

TEST(VideoFiles, DamagedFilesNeverDoWorseThanAnError) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  make_pictures(folder);
  test::ffmpeg(folder, "-i pictures.mp4 " + test::tones(2, 48000, 0.5, 500, "stereo") + " -frames:v 12 -c:v libx264 -c:a aac a.mp4");
  test::ffmpeg(folder, "-i a.mp4 -c copy a.mkv");
  test::ffmpeg(folder, "-i a.mp4 -c copy a.ts");
  test::ffmpeg(folder, "-i a.mp4 -c:v mpeg4 -c:a libmp3lame a.avi");
  test::ffmpeg(folder, "-i a.mp4 -an a.gif");
  std::mt19937 random(6);
  for (const char* name : {"a.mp4", "a.mkv", "a.ts", "a.avi", "a.gif"}) {
    const std::string whole = *read_file(folder / name);
    for (int round = 0; round < 60; ++round) {
      std::string bytes = whole;
      // Every second time only the head or the tail, where the tables are.
      const std::size_t span = round % 2 == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 1500);
      const std::size_t first = round % 4 == 3 ? bytes.size() - span : 0;
      for (int i = 0; i < 4; ++i) bytes[first + random() % span] = static_cast<char>(random());
      const auto path = folder.write("part", bytes);
      const auto video = load_video(path, {.min_seconds = 0}, kIgnore);
      if (video.ok()) continue;
      EXPECT_NE(video.error().message.find("part"), std::string::npos) << video.error().text();
    }
  }
}

}  // namespace
}  // namespace tritium
