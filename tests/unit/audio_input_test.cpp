// Sound files: every sample format, layout and rate, and files that are broken or hold no sound.
#include "media/audio_input.h"

#include "base/files.h"
#include "base/system.h"
#include "media/wav_writer.h"
#include "unit/media_inputs.h"

#include <algorithm>
#include <random>

namespace tritium {
namespace {

using test::TempFolder;

void expect_refused(const std::filesystem::path& path, const std::string& reason = "") {
  const auto sound = load_audio(path);
  ASSERT_FALSE(sound.ok()) << path;
  test::expect_clear(sound.error(), path);
  EXPECT_NE(sound.error().message.find(reason), std::string::npos) << sound.error().text();
}

TEST(AudioInput, FloatsComeBackAsTheyAre) {
  const TempFolder folder;
  const std::vector<float> left = {0, 1, -1, 0.3f, 1.75f, -2.5f}, right = {-0.1f, 1e-9f, 0.5f, 0, 0, 1};
  ASSERT_TRUE(write_wav(folder / "a.wav", left, right, 44100, WavSamples::float32).ok());
  const auto sound = load_audio(folder / "a.wav");
  ASSERT_TRUE(sound.ok()) << sound.error().text();
  EXPECT_EQ(sound->sample_rate, 44100);
  EXPECT_EQ(sound->left, left);
  EXPECT_EQ(sound->right, right);
}

// Integers of every width: full scale is 1, silence is 0.
TEST(AudioInput, EverySampleFormat) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  std::vector<float> left, right;
  for (int i = 0; i < 4096; ++i) {
    left.push_back(static_cast<float>(i - 2048) / 2048);  // -1 .. just below 1
    right.push_back(static_cast<float>(2047 - i) / 2048);
  }
  ASSERT_TRUE(write_wav(folder / "a.wav", left, right, 48000, WavSamples::float32).ok());
  struct Format {
    std::string codec, extension;
    double step;  // of the format
  };
  for (const Format& f : {Format{"pcm_u8", "wav", 1.0 / 128}, Format{"pcm_s16le", "wav", 1.0 / 32768},
                          Format{"pcm_s24le", "wav", 1.0 / (1 << 23)}, Format{"pcm_s32le", "wav", 0}, Format{"pcm_f32le", "wav", 0},
                          Format{"pcm_f64le", "wav", 0}, Format{"pcm_s16be", "aiff", 1.0 / 32768}, Format{"pcm_f32be", "au", 0},
                          Format{"flac", "flac", 1.0 / (1 << 15)}, Format{"alac", "m4a", 1.0 / (1 << 15)}}) {
    const std::string name = f.codec + "." + f.extension;
    test::ffmpeg(folder, "-i a.wav -c:a " + f.codec + " " + name);
    const auto sound = load_audio(folder / name);
    ASSERT_TRUE(sound.ok()) << sound.error().text();
    ASSERT_EQ(sound->left.size(), left.size()) << name;
    for (std::size_t i = 0; i < left.size(); ++i) {
      ASSERT_NEAR(sound->left[i], left[i], f.step) << name << " " << i;
      ASSERT_NEAR(sound->right[i], right[i], f.step) << name << " " << i;
    }
    EXPECT_EQ(sound->left[2048], 0.0f) << name;
    EXPECT_EQ(sound->left[0], -1.0f) << name;
  }
}

TEST(AudioInput, MonoGoesToBothAndOfManyTheFirstTwoAreTaken) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  for (const auto& [layout, channels] : {std::pair{"mono", 1}, {"stereo", 2}, {"2.1", 3}, {"quad", 4}, {"5.1", 6}, {"7.1", 8}}) {
    test::ffmpeg(folder, test::tones(channels, 48000, 1, 500, layout) + " -c:a pcm_f32le a.wav");
    const auto sound = load_audio(folder / "a.wav");
    ASSERT_TRUE(sound.ok()) << sound.error().text();
    EXPECT_EQ(sound->left.size(), 48000u);
    EXPECT_NEAR(test::amplitude(sound->left, 500, 48000), 0.5, 1e-3) << layout;
    EXPECT_NEAR(test::amplitude(sound->right, channels == 1 ? 500 : 1000, 48000), 0.5, 1e-3) << layout;
    for (int c = 1; c < channels; ++c) EXPECT_LT(test::amplitude(sound->left, 500 * (c + 1), 48000), 1e-3) << layout;
    EXPECT_EQ(sound->left == sound->right, channels == 1) << layout;
  }
}

TEST(AudioInput, EveryRateAndCodec) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  struct Case {
    std::string codec, name;
    int rate;
    double slack;  // seconds that the container's last block may add or leave out
  };
  for (const Case& c :
       {Case{"pcm_s16le", "a.wav", 8000, 0}, Case{"pcm_s16le", "a.wav", 11025, 0}, Case{"pcm_s16le", "a.wav", 44100, 0},
        Case{"pcm_s24le", "a.wav", 192000, 0}, Case{"aac", "a.m4a", 44100, 0}, Case{"aac", "a.aac", 48000, 0.05},
        Case{"libmp3lame", "a.mp3", 44100, 1e-3}, Case{"libvorbis", "a.ogg", 44100, 1e-3}, Case{"libopus", "a.opus", 48000, 2e-3},
        Case{"ac3", "a.ac3", 48000, 0.05}, Case{"wmav2", "a.wma", 44100, 0.1}, Case{"flac", "a.mkv", 96000, 0}}) {
    if (!test::has_encoder(c.codec)) {
      std::printf("no encoder '%s'\n", c.codec.c_str());
      continue;
    }
    test::ffmpeg(folder, test::tones(2, c.rate, 2, 500, "stereo") + " -c:a " + c.codec + " -b:a 192k " + c.name);
    const auto sound = load_audio(folder / c.name);
    ASSERT_TRUE(sound.ok()) << sound.error().text();
    EXPECT_EQ(sound->sample_rate, c.rate);
    EXPECT_NEAR(sound->seconds(), 2, c.slack) << c.name;
    const auto middle = [&](const std::vector<float>& channel) {
      return std::span(channel).subspan(static_cast<std::size_t>(c.rate / 4), static_cast<std::size_t>(c.rate));
    };
    EXPECT_NEAR(test::amplitude(middle(sound->left), 500, c.rate), 0.5, 0.02) << c.name;
    EXPECT_NEAR(test::amplitude(middle(sound->right), 1000, c.rate), 0.5, 0.02) << c.name;
  }
}

TEST(AudioInput, LongSoundIsCutAtItsOwnRate) {
  const TempFolder folder;
  std::vector<float> ramp(44100 * 4);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i) / static_cast<float>(ramp.size());
  ASSERT_TRUE(write_wav(folder / "a.wav", ramp, ramp, 44100, WavSamples::float32).ok());
  const auto sound = load_audio(folder / "a.wav", {.max_seconds = 1.5});
  ASSERT_TRUE(sound.ok()) << sound.error().text();
  ASSERT_EQ(sound->left.size(), 66150u);
  EXPECT_TRUE(std::equal(sound->left.begin(), sound->left.end(), ramp.begin()));
  EXPECT_EQ(load_audio(folder / "a.wav", {.max_seconds = 100})->left.size(), ramp.size());
  CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(load_audio(folder / "a.wav", {.cancel = &cancel}).error().code, ErrorCode::interrupted);
}

// A CAF file may say that its packets hold many samples while each has one: the work must not grow with the square of their number.
TEST(AudioInput, TinyPacketsAreNotSlow) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  test::ffmpeg(folder, test::tones(1, 48000, 10, 500, "mono") + " -c:a pcm_s16be a.caf");
  const auto plain = load_audio(folder / "a.caf");
  ASSERT_TRUE(plain.ok()) << plain.error().text();
  std::string bytes = *read_file(folder / "a.caf");
  const std::size_t samples_per_packet =
      bytes.find("desc") + 12 + 20;  // after the chunk's size, the rate, the format, its flags and the bytes
  ASSERT_EQ(bytes.substr(samples_per_packet, 4), std::string("\0\0\0\1", 4));
  bytes[samples_per_packet + 2] = '\xff';
  folder.write("tiny.caf", bytes);
  const double start = monotonic_seconds();
  const auto tiny = load_audio(folder / "tiny.caf");
  ASSERT_TRUE(tiny.ok()) << tiny.error().text();
  EXPECT_EQ(tiny->left, plain->left);
  EXPECT_LT(monotonic_seconds() - start, 20);
}

TEST(AudioInput, VideosWithAndWithoutSound) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  const std::string pictures = test::numbered_frames(folder, 48, "24");
  test::ffmpeg(folder, pictures + " -c:v libx264 -preset ultrafast silent.mp4");
  test::ffmpeg(folder, pictures + " " + test::tones(2, 48000, 2, 500, "stereo") + " -c:v libx264 -preset ultrafast -c:a aac sound.mp4");
  const auto sound = load_audio(folder / "sound.mp4");
  ASSERT_TRUE(sound.ok()) << sound.error().text();
  EXPECT_EQ(sound->left.size(), 96000u);
  EXPECT_NEAR(test::amplitude(std::span(sound->right).subspan(24000, 48000), 1000, 48000), 0.5, 0.02);
  expect_refused(folder / "silent.mp4", "is a video without sound");
  test::ffmpeg(folder, "-i silent.mp4 -frames:v 1 a.png");
  expect_refused(folder / "a.png");
}

TEST(AudioInput, WhatIsNoSoundIsRefused) {
  const TempFolder folder;
  std::mt19937 random(8);
  std::string noise(100000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  for (const auto& [name, content] : std::map<std::string, std::string>{{"empty.wav", ""},
                                                                        {"text.mp3", "this is not a sound\n"},
                                                                        {"noise.wav", noise},
                                                                        {"list.mp3", "#EXTM3U\nhttp://127.0.0.1:9/a.mp3\n"}}) {
    folder.write(name, content);
    expect_refused(folder / name);
  }
  ASSERT_TRUE(write_wav(folder / "none.wav", {}, {}).ok());
  expect_refused(folder / "none.wav");
  const std::vector<float> quiet(1000);
  ASSERT_TRUE(write_wav(folder / "nan.wav", quiet, quiet, 44100, WavSamples::float32).ok());
  std::string nan = *read_file(folder / "nan.wav");
  nan.replace(nan.size() - 8, 4, std::string("\0\0\xc0\x7f", 4));
  folder.write("nan.wav", nan);
  expect_refused(folder / "nan.wav", "not finite");
  std::string fast = *read_file(folder / "nan.wav");
  fast.replace(24, 4, std::string("\0\0\0\x40", 4));  // a rate of 2^30 Hz
  folder.write("fast.wav", fast);
  expect_refused(folder / "fast.wav", "Hz");
  ASSERT_EQ(::mkfifo((folder / "pipe.wav").c_str(), 0600), 0);
  expect_refused(folder / "pipe.wav");
  expect_refused(folder / "missing.wav");
  expect_refused(folder.path());
}

TEST(AudioInput, B1_TruncatedFilesAreRefused) {
  TRITIUM_NEEDS_FFMPEG();
  const TempFolder folder;
  const std::string tone = test::tones(2, 44100, 3, 500, "stereo");
  for (const char* file : {"a.wav", "a.flac", "a.m4a", "a.mp3"}) {
    const std::string name = file;
    test::ffmpeg(folder, tone + " " + name);
    const std::string whole = *read_file(folder / name);
    const auto complete = load_audio(folder / name);
    ASSERT_TRUE(complete.ok()) << complete.error().text();
    for (std::size_t keep = 0; keep < whole.size() * 4 / 5; keep += std::max<std::size_t>(1, whole.size() / 31)) {
      const auto path = folder.write("part", whole.substr(0, keep));
      const auto part = load_audio(path);
      ASSERT_FALSE(part.ok()) << name << " " << keep << " of " << whole.size();
      test::expect_clear(part.error(), path);
    }
  }
}

}  // namespace
}  // namespace tritium
