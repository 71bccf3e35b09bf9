// PNG and WAV files, and reading files that are broken or not what they claim to be.
#include "base/files.h"
#include "media/mp4_writer.h"
#include "media/png_frames.h"
#include "media/png_writer.h"
#include "media/reader.h"
#include "media/wav_writer.h"
#include "unit/media_clips.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png.h>
#include <random>

namespace tritium {
namespace {

using test::moving_disc;
using test::TempFolder;

std::vector<std::uint8_t> read_png(const std::filesystem::path& path, int& width, int& height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&image, path.c_str()), 0) << path << ": " << image.message;
  image.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> out(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, out.data(), 0, nullptr), 0) << image.message;
  width = static_cast<int>(image.width);
  height = static_cast<int>(image.height);
  return out;
}

TEST(Png, PixelsComeBackAndBytesAreTheSame) {
  const TempFolder folder;
  std::mt19937 random(1);
  for (const auto& [width, height] : {std::pair{1, 1}, {33, 17}, {96, 64}}) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width * height * 3));
    for (auto& p : pixels) p = static_cast<std::uint8_t>(random());  // noise grows when compressed: the buffer must be large enough
    ASSERT_TRUE(write_png(folder / "a.png", pixels, width, height).ok());
    ASSERT_TRUE(write_png(folder / "b.png", pixels, width, height).ok());
    int w = 0, h = 0;
    EXPECT_EQ(read_png(folder / "a.png", w, h), pixels);
    EXPECT_EQ(w, width);
    EXPECT_EQ(h, height);
    EXPECT_EQ(*read_file(folder / "a.png"), *read_file(folder / "b.png"));
  }
  EXPECT_FALSE(write_png(folder / "c.png", std::vector<std::uint8_t>(5), 2, 1).ok());
  EXPECT_FALSE(write_png(folder / "missing/c.png", std::vector<std::uint8_t>(3), 1, 1).ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "c.png"));
}

TEST(Png, EveryFrameIsWritten) {
  const TempFolder folder;
  const Clip clip = moving_disc(7);
  auto frames = PngFrames::open(folder / "clip.mp4");
  ASSERT_TRUE(frames.ok()) << frames.error().text();
  for (int i = 0; i < clip.frames; ++i) ASSERT_TRUE(frames->add(clip.frame(i), clip.width, clip.height).ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "deep"));
  ASSERT_TRUE(frames->write_to(folder / "deep/frames").ok());
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "deep/frames")) ++count;
  EXPECT_EQ(count, 7);
  int w = 0, h = 0;
  const auto last = clip.frame(6);
  EXPECT_EQ(read_png(folder / "deep/frames/frame_00006.png", w, h), std::vector<std::uint8_t>(last.begin(), last.end()));

  CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(frames->write_to(folder / "none", &cancel).error().code, ErrorCode::interrupted);
  ASSERT_TRUE(write_file_atomically(folder / "file", "x").ok());
  EXPECT_NE(frames->write_to(folder / "file").error().message.find("file"), std::string::npos);
  EXPECT_FALSE(frames->add(clip.frame(0), clip.width, clip.height + 1).ok());
}

TEST(Png, FramesThatNobodyTookAreGone) {
  const TempFolder folder;
  const Clip clip = moving_disc(2);
  {
    auto frames = PngFrames::open(folder / "clip.mp4");
    ASSERT_TRUE(frames.ok()) << frames.error().text();
    ASSERT_TRUE(frames->add(clip.frame(0), clip.width, clip.height).ok());
    EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

std::uint32_t number_at(const std::string& bytes, std::size_t at, int size) {
  std::uint32_t out = 0;
  for (int i = size - 1; i >= 0; --i) out = out << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return out;
}

TEST(Wav, HeaderSizesAreExact) {
  const TempFolder folder;
  const std::vector<float> left = {0, 1, -1, 0.5f, 2}, right = {-0.5f, 0, 0.25f, -2, 1e-9f};
  ASSERT_TRUE(write_wav(folder / "a.wav", left, right).ok());
  const std::string pcm = *read_file(folder / "a.wav");
  ASSERT_EQ(pcm.size(), 44u + 5 * 4);
  EXPECT_EQ(pcm.substr(0, 4) + pcm.substr(8, 8) + pcm.substr(36, 4), "RIFFWAVEfmt data");
  EXPECT_EQ(number_at(pcm, 4, 4), pcm.size() - 8);
  EXPECT_EQ(number_at(pcm, 20, 2), 1u);
  EXPECT_EQ(number_at(pcm, 22, 2), 2u);
  EXPECT_EQ(number_at(pcm, 24, 4), 32000u);
  EXPECT_EQ(number_at(pcm, 28, 4), 128000u);
  EXPECT_EQ(number_at(pcm, 40, 4), 20u);
  EXPECT_EQ(number_at(pcm, 48, 2), 32767u);           // +1
  EXPECT_EQ(number_at(pcm, 52, 2), 65536u - 32767u);  // -1
  EXPECT_EQ(number_at(pcm, 58, 2), 65536u - 32767u);  // -2, limited
  EXPECT_EQ(number_at(pcm, 60, 2), 32767u);           // 2, limited

  ASSERT_TRUE(write_wav(folder / "b.wav", left, right, 48000, WavSamples::float32).ok());
  const std::string floats = *read_file(folder / "b.wav");
  ASSERT_EQ(floats.size(), 58u + 5 * 8);
  EXPECT_EQ(number_at(floats, 4, 4), floats.size() - 8);
  EXPECT_EQ(number_at(floats, 20, 2), 3u);
  EXPECT_EQ(floats.substr(38, 4) + floats.substr(50, 4), "factdata");
  EXPECT_EQ(number_at(floats, 54, 4), 40u);
}

TEST(Wav, SamplesComeBack) {
  const TempFolder folder;
  const Clip clip = moving_disc();
  ASSERT_TRUE(write_wav(folder / "a.wav", clip.left, clip.right, clip.sample_rate, WavSamples::float32).ok());
  const auto exact = read_clip(folder / "a.wav");
  ASSERT_TRUE(exact.ok()) << exact.error().text();
  EXPECT_EQ(exact->frames, 0);
  EXPECT_EQ(exact->left, clip.left);
  EXPECT_EQ(exact->right, clip.right);
  ASSERT_TRUE(write_wav(folder / "b.wav", clip.left, clip.right).ok());
  const auto rounded = read_clip(folder / "b.wav");
  ASSERT_TRUE(rounded.ok()) << rounded.error().text();
  ASSERT_EQ(rounded->left.size(), clip.left.size());
  for (std::size_t i = 0; i < clip.left.size(); ++i) ASSERT_NEAR(rounded->left[i], clip.left[i], 4e-5);
}

TEST(Wav, OtherRatesAreResampledOnReading) {
  const TempFolder folder;
  std::vector<float> tone(44100);
  for (std::size_t i = 0; i < tone.size(); ++i)
    tone[i] = static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / 44100));
  ASSERT_TRUE(write_wav(folder / "a.wav", tone, tone, 44100, WavSamples::float32).ok());
  const auto clip = read_clip(folder / "a.wav");
  ASSERT_TRUE(clip.ok()) << clip.error().text();
  EXPECT_NEAR(static_cast<double>(clip->left.size()), 32000, 40);
  for (std::size_t i = 1000; i < 31000; ++i)
    ASSERT_NEAR(clip->left[i], 0.5 * std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / 32000), 2e-3) << i;
}

TEST(Wav, BadInputIsRefused) {
  const TempFolder folder;
  const std::vector<float> two(2), three(3), bad = {0, INFINITY};
  EXPECT_FALSE(write_wav(folder / "a.wav", two, three).ok());
  EXPECT_FALSE(write_wav(folder / "a.wav", two, two, 0).ok());
  EXPECT_EQ(write_wav(folder / "a.wav", two, bad).error().code, ErrorCode::rejected);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.wav"));
  EXPECT_TRUE(write_wav(folder / "empty.wav", {}, {}).ok());
}

// Neither read nor probed, and the message names the file.
void expect_refused(const std::filesystem::path& path, const std::string& why) {
  const auto clip = read_clip(path);
  ASSERT_FALSE(clip.ok()) << path << " " << why;
  EXPECT_EQ(clip.error().code, ErrorCode::failure);
  EXPECT_NE(clip.error().message.find(path.filename().string()), std::string::npos) << clip.error().text();
  EXPECT_GT(clip.error().message.size(), path.string().size() + 20) << clip.error().text();
}

TEST(Reader, FilesThatAreNotMediaAreRefused) {
  const TempFolder folder;
  std::mt19937 random(3);
  std::string noise(100000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  const std::map<std::string, std::string> files = {
      {"empty.mp4", ""},
      {"text.mp4", "this is not a video\n"},
      {"noise.mp4", noise},
      {"list.m3u8", "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n"},
      {"list.mp4", "ffconcat version 1.0\nfile '/etc/hostname'\n"},
      {"session.sdp", "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n"},
  };
  for (const auto& [name, content] : files) {
    ASSERT_TRUE(write_file_atomically(folder / name, content).ok());
    expect_refused(folder / name, "");
    EXPECT_FALSE(probe_media(folder / name).ok()) << name;
  }
  expect_refused(folder / "does_not_exist.mp4", "");
  expect_refused(folder.path(), "folder");
}

TEST(Reader, B1_TruncatedFilesAreRefusedWhereverTheyEnd) {
  const TempFolder folder;
  ASSERT_TRUE(write_mp4(moving_disc(39), folder / "whole.mp4").ok());
  const std::string whole = *read_file(folder / "whole.mp4");
  for (std::size_t keep = 0; keep < whole.size(); keep += std::max<std::size_t>(1, whole.size() / 37)) {
    ASSERT_TRUE(write_file_atomically(folder / "part.mp4", whole.substr(0, keep)).ok());
    expect_refused(folder / "part.mp4", fmt::format("{} of {} bytes", keep, whole.size()));
  }
  ASSERT_TRUE(write_file_atomically(folder / "part.mp4", whole.substr(0, whole.size() - 1)).ok());
  expect_refused(folder / "part.mp4", "last byte missing");
}

// Damage may go unseen where it makes another valid picture; it must never crash or hang, and never give another number of frames.
TEST(Reader, DamagedFilesNeverGiveAnotherShape) {
  const TempFolder folder;
  ASSERT_TRUE(write_mp4(moving_disc(22, 64, 64), folder / "whole.mp4").ok());
  const std::string whole = *read_file(folder / "whole.mp4");
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 200; ++round) {
    std::string bytes = whole;
    const std::size_t data = bytes.find("mdat") + 4;
    for (int i = 0; i < 20; ++i) bytes[data + random() % (bytes.size() - data)] = static_cast<char>(random());
    ASSERT_TRUE(write_file_atomically(folder / "damaged.mp4", bytes).ok());
    const auto clip = read_clip(folder / "damaged.mp4");
    if (!clip.ok()) {
      ++refused;
      EXPECT_NE(clip.error().message.find("damaged.mp4"), std::string::npos);
      continue;
    }
    EXPECT_EQ(clip->frames, 22);
    EXPECT_EQ(clip->rgb.size(), clip->frame_bytes() * 22);
  }
  std::printf("damaged files refused: %d of 200\n", refused);
  EXPECT_GT(refused, 150);
}

TEST(Reader, DecodedSizeIsLimited) {
  const TempFolder folder;
  ASSERT_TRUE(write_mp4(moving_disc(), folder / "clip.mp4").ok());
  const auto clip = read_clip(folder / "clip.mp4", {.limit_bytes = 200000});
  ASSERT_FALSE(clip.ok());
  EXPECT_EQ(clip.error().code, ErrorCode::does_not_fit);
  CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(read_clip(folder / "clip.mp4", {.cancel = &cancel}).error().code, ErrorCode::interrupted);
}

TEST(Reader, A33_OtherContainersAndColoursAreRead) {
  if (!test::installed("ffmpeg")) GTEST_SKIP() << "ffmpeg is not installed";
  const TempFolder folder;
  const Clip clip = moving_disc();
  ASSERT_TRUE(write_mp4(clip, folder / "clip.mp4").ok());
  const std::string convert = "ffmpeg -v error -y -i " + (folder / "clip.mp4").string() + " ";
  for (const std::string& how :
       {std::string("-c:v ffv1 -c:a flac out.mkv"), std::string("-c:v libx264 -crf 1 -c:a pcm_s16le -ac 1 -ar 48000 out.mov"),
        std::string("-vf scale=out_color_matrix=bt601:out_range=full -c:v libx264 -crf 1 -pix_fmt yuvj420p "
                    "-colorspace smpte170m -c:a libmp3lame out.avi")}) {
    const std::string name = how.substr(how.find_last_of(' ') + 1);
    test::output_of("cd " + folder.path().string() + " && " + convert + how);
    const auto back = read_clip(folder / name);
    ASSERT_TRUE(back.ok()) << back.error().text();
    EXPECT_EQ(back->frames, clip.frames) << name;
    double sum = 0;
    for (std::size_t i = 0; i < clip.rgb.size(); ++i) sum += std::abs(static_cast<double>(clip.rgb[i]) - back->rgb[i]);
    EXPECT_LT(sum / static_cast<double>(clip.rgb.size()), 2.0) << name;
    EXPECT_NEAR(back->audio_seconds(), clip.audio_seconds(), 0.1) << name;
    const auto info = probe_media(folder / name);
    ASSERT_TRUE(info.ok()) << info.error().text();
    EXPECT_EQ(info->video->frames, clip.frames) << name;
  }
}

}  // namespace
}  // namespace tritium
