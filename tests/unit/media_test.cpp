// MP4 output: what is in the file, that it is the same every time, and what happens when it cannot be written.
#include "media/mp4_writer.h"

#include "base/files.h"
#include "media/reader.h"
#include "unit/file_size_limit.h"
#include "unit/media_clips.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

using test::FileSizeLimit;
using test::installed;
using test::moving_disc;
using test::output_of;
using test::TempFolder;

Mp4Summary write_or_fail(const Clip& clip, const std::filesystem::path& path, const Mp4Tags& tags = {}, const Mp4Options& options = {}) {
  const auto written = write_mp4(clip, path, options, tags);
  EXPECT_TRUE(written.ok()) << written.error().text();
  return written.ok() ? *written : Mp4Summary{};
}

Clip read_or_fail(const std::filesystem::path& path) {
  auto clip = read_clip(path);
  EXPECT_TRUE(clip.ok()) << clip.error().text();
  return clip.ok() ? std::move(clip).value() : Clip{};
}

MediaInfo probe_or_fail(const std::filesystem::path& path) {
  auto info = probe_media(path);
  EXPECT_TRUE(info.ok()) << info.error().text();
  return info.ok() ? std::move(info).value() : MediaInfo{};
}

double psnr(const Clip& a, const Clip& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.rgb.size(); ++i) sum += std::pow(static_cast<double>(a.rgb[i]) - b.rgb[i], 2);
  return 10 * std::log10(255.0 * 255.0 / (sum / static_cast<double>(a.rgb.size()) + 1e-12));
}

double snr_db(const std::vector<float>& wanted, const std::vector<float>& got) {
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    signal += std::pow(static_cast<double>(wanted[i]), 2);
    noise += std::pow(static_cast<double>(wanted[i]) - got[i], 2);
  }
  return 10 * std::log10(signal / (noise + 1e-20));
}

TEST(Mp4, A23_FileIsWhatEveryBrowserPlays) {
  const TempFolder folder;
  const Clip clip = moving_disc();
  write_or_fail(clip, folder / "clip.mp4");
  const MediaInfo info = probe_or_fail(folder / "clip.mp4");
  ASSERT_TRUE(info.video && info.audio);
  EXPECT_EQ(info.video->codec, "h264");
  EXPECT_EQ(info.video->profile, "High");
  EXPECT_EQ(info.video->tag, "avc1");
  EXPECT_EQ(info.video->pixel_format, "yuv420p");
  EXPECT_EQ(info.video->range, "tv");
  EXPECT_EQ(info.video->matrix, "bt709");
  EXPECT_EQ(info.video->primaries, "bt709");
  EXPECT_EQ(info.video->transfer, "bt709");
  EXPECT_EQ(info.video->width, clip.width);
  EXPECT_EQ(info.video->height, clip.height);
  EXPECT_EQ(info.video->fps_num, 24);
  EXPECT_EQ(info.video->fps_den, 1);
  EXPECT_EQ(info.video->frames, clip.frames);
  EXPECT_EQ(info.audio->codec, "aac");
  EXPECT_EQ(info.audio->profile, "LC");
  EXPECT_EQ(info.audio->sample_rate, 32000);
  EXPECT_EQ(info.audio->channels, 2);
  EXPECT_EQ(info.moov_before_mdat, true);
}

TEST(Mp4, A23_FfprobeAgrees) {
  if (!installed("ffprobe")) GTEST_SKIP() << "ffprobe is not installed";
  const TempFolder folder;
  write_or_fail(moving_disc(), folder / "clip.mp4", {.metadata_json = R"({"seed":7})", .others = {{"title", "a disc"}}});
  const std::string text =
      output_of("ffprobe -v error -of json -count_frames -show_streams -show_format " + (folder / "clip.mp4").string());
  const auto probe = nlohmann::json::parse(text);
  const auto &video = probe["streams"][0], &audio = probe["streams"][1];
  EXPECT_EQ(video["codec_name"], "h264");
  EXPECT_EQ(video["profile"], "High");
  EXPECT_EQ(video["codec_tag_string"], "avc1");
  EXPECT_EQ(video["pix_fmt"], "yuv420p");
  EXPECT_EQ(video["color_range"], "tv");
  EXPECT_EQ(video["color_space"], "bt709");
  EXPECT_EQ(video["color_primaries"], "bt709");
  EXPECT_EQ(video["color_transfer"], "bt709");
  EXPECT_EQ(video["chroma_location"], "left");
  EXPECT_EQ(video["r_frame_rate"], "24/1");
  EXPECT_EQ(video["avg_frame_rate"], "24/1");
  EXPECT_EQ(video["nb_read_frames"], "22");
  EXPECT_EQ(video["start_time"], "0.000000");
  EXPECT_EQ(audio["codec_name"], "aac");
  EXPECT_EQ(audio["profile"], "LC");
  EXPECT_EQ(audio["sample_rate"], "32000");
  EXPECT_EQ(audio["channels"], 2);
  EXPECT_EQ(audio["start_time"], "0.000000");
  EXPECT_EQ(probe["format"]["tags"]["title"], "a disc");
  EXPECT_EQ(probe["format"]["tags"][kMetadataTag], R"({"seed":7})");
}

TEST(Mp4, EveryPresetGivesHighProfile) {
  const TempFolder folder;
  for (const char* preset : {"ultrafast", "superfast", "veryfast", "fast", "slow"}) {
    write_or_fail(moving_disc(5), folder / "clip.mp4", {}, {.preset = preset});
    EXPECT_EQ(probe_or_fail(folder / "clip.mp4").video->profile, "High") << preset;
  }
}

TEST(Mp4, ColoursAreConvertedAsTagged) {
  if (!installed("ffmpeg")) GTEST_SKIP() << "ffmpeg is not installed";
  // 8-bit limited range BT.709 of full-range RGB, by the matrix of the standard: Y, Cb, Cr.
  const std::vector<std::array<int, 6>> cases = {{255, 255, 255, 235, 128, 128}, {0, 0, 0, 16, 128, 128},   {255, 0, 0, 63, 102, 240},
                                                 {0, 255, 0, 173, 42, 26},       {0, 0, 255, 32, 240, 118}, {128, 128, 128, 126, 128, 128}};
  for (const auto& c : cases) {
    const TempFolder folder;
    Clip clip = moving_disc(1, 64, 64, false);
    for (std::size_t i = 0; i < clip.rgb.size(); ++i) clip.rgb[i] = static_cast<std::uint8_t>(c[i % 3]);
    write_or_fail(clip, folder / "clip.mp4");
    const std::string raw = output_of("ffmpeg -v error -i " + (folder / "clip.mp4").string() + " -f rawvideo -pix_fmt yuv420p -");
    ASSERT_EQ(raw.size(), 64u * 64 * 3 / 2);
    const auto byte = [&](std::size_t at) { return static_cast<int>(static_cast<unsigned char>(raw[at])); };
    EXPECT_NEAR(byte(32 * 64 + 32), c[3], 1) << c[0] << "," << c[1] << "," << c[2];
    EXPECT_NEAR(byte(64 * 64 + 16 * 32 + 16), c[4], 1);
    EXPECT_NEAR(byte(64 * 64 + 32 * 32 + 16 * 32 + 16), c[5], 1);
  }
}

TEST(Mp4, SameClipGivesSameBytes) {
  const TempFolder folder;
  const Clip clip = moving_disc(22, 128, 96);
  const Mp4Tags tags{.metadata_json = R"({"prompt":"a disc"})"};
  write_or_fail(clip, folder / "a.mp4", tags);
  write_or_fail(clip, folder / "b.mp4", tags);
  EXPECT_EQ(*read_file(folder / "a.mp4"), *read_file(folder / "b.mp4"));
}

TEST(Mp4, PicturesAndToneSurvive) {
  const TempFolder folder;
  const Clip clip = moving_disc();
  const Mp4Summary summary = write_or_fail(clip, folder / "clip.mp4");
  EXPECT_EQ(summary.frames, clip.frames);
  EXPECT_EQ(summary.samples, static_cast<std::int64_t>(clip.left.size()));
  EXPECT_EQ(summary.silence_samples, 0);
  EXPECT_EQ(summary.cut_samples, 0);
  const Clip back = read_or_fail(folder / "clip.mp4");
  ASSERT_EQ(back.frames, clip.frames);
  ASSERT_EQ(back.rgb.size(), clip.rgb.size());
  ASSERT_EQ(back.left.size(), clip.left.size());
  ASSERT_EQ(back.right.size(), clip.right.size());
  const double picture = psnr(clip, back), left = snr_db(clip.left, back.left), right = snr_db(clip.right, back.right);
  std::printf("round trip: picture %.1f dB, left %.1f dB, right %.1f dB\n", picture, left, right);
  EXPECT_GT(picture, 38);
  EXPECT_GT(left, 25);  // also proves that nothing is shifted by the encoder's delay: one sample would give 22
  EXPECT_GT(right, 25);
}

TEST(Mp4, A27_FrameCountsAndDurationsAreExact) {
  const TempFolder folder;
  for (const int frames : {1, 2, 5, 22, 39, 124}) {
    const Clip clip = moving_disc(frames, 64, 32);
    write_or_fail(clip, folder / "clip.mp4");
    const MediaInfo info = probe_or_fail(folder / "clip.mp4");
    ASSERT_TRUE(info.video && info.audio);
    EXPECT_EQ(info.video->frames, frames);
    EXPECT_NEAR(info.video->seconds, frames / 24.0, 1e-4);
    EXPECT_NEAR(info.audio->seconds, clip.audio_seconds(), 1e-4);
    EXPECT_LT(std::abs(info.video->seconds - info.audio->seconds), 1 / 24.0);
    EXPECT_EQ(info.moov_before_mdat, true);
    const Clip back = read_or_fail(folder / "clip.mp4");
    EXPECT_EQ(back.frames, frames);
    EXPECT_EQ(back.fps_num, 24);
    EXPECT_EQ(back.fps_den, 1);
    EXPECT_EQ(back.left.size(), clip.left.size()) << frames;
  }
}

TEST(Mp4, SoundOfAnotherLengthIsCutOrFilledAndSaidSo) {
  const TempFolder folder;
  const std::int64_t pictures = 29333;  // 22 frames at 24 fps in samples of 32 kHz
  for (const std::int64_t samples : {1ll, 10000ll, 27900ll, 28100ll, 29333ll, 30600ll, 30700ll, 90000ll}) {
    Clip clip = moving_disc();
    clip.left.resize(static_cast<std::size_t>(samples), 0.25f);
    clip.right.resize(clip.left.size(), 0.25f);
    const Mp4Summary summary = write_or_fail(clip, folder / "clip.mp4");
    const bool kept = std::abs(samples - pictures) < 1333;
    EXPECT_EQ(summary.samples, kept ? samples : pictures) << samples;
    EXPECT_EQ(summary.silence_samples, kept ? 0 : std::max<std::int64_t>(0, pictures - samples));
    EXPECT_EQ(summary.cut_samples, kept ? 0 : std::max<std::int64_t>(0, samples - pictures));
    const MediaInfo info = probe_or_fail(folder / "clip.mp4");
    EXPECT_LT(std::abs(info.video->seconds - info.audio->seconds), 1 / 24.0) << samples;
    EXPECT_EQ(static_cast<std::int64_t>(read_or_fail(folder / "clip.mp4").left.size()), summary.samples);
  }
}

TEST(Mp4, ClipWithoutSoundHasNoSoundTrack) {
  const TempFolder folder;
  write_or_fail(moving_disc(22, 96, 96, false), folder / "clip.mp4");
  EXPECT_FALSE(probe_or_fail(folder / "clip.mp4").audio);
  const Clip back = read_or_fail(folder / "clip.mp4");
  EXPECT_EQ(back.frames, 22);
  EXPECT_TRUE(back.left.empty());
}

TEST(Mp4, WholeRequestIsInTheMetadata) {
  const TempFolder folder;
  nlohmann::json request = {{"prompt", "红色的圆形 \"quoted\" \\ / \n ä"}, {"seed", 18446744073709551615ull}};
  for (int i = 0; i < 3000; ++i) request["long"].push_back(fmt::format("entry {}", i));
  write_or_fail(moving_disc(5), folder / "clip.mp4",
                {.metadata_json = request.dump(), .others = {{"comment", "made by a test"}, {"encoder", "Tritium"}}});
  const MediaInfo info = probe_or_fail(folder / "clip.mp4");
  EXPECT_EQ(info.metadata.at(kMetadataTag), request.dump());
  EXPECT_EQ(info.metadata.at("comment"), "made by a test");
  EXPECT_EQ(info.metadata.at("encoder"), "Tritium");
}

TEST(Mp4, FramesAndSoundMayComeInPieces) {
  const TempFolder folder;
  const Clip clip = moving_disc(39);
  write_or_fail(clip, folder / "whole.mp4");
  auto writer = Mp4Writer::open(folder / "pieces.mp4", {.width = clip.width, .height = clip.height});
  ASSERT_TRUE(writer.ok()) << writer.error().text();
  std::size_t sample = 0;
  for (int i = 0; i < clip.frames; ++i) {
    ASSERT_TRUE(writer->add_frame(clip.frame(i)).ok());
    const std::size_t count = std::min<std::size_t>(i % 7 == 3 ? 9000 : 0, clip.left.size() - sample);
    ASSERT_TRUE(writer->add_audio(std::span(clip.left).subspan(sample, count), std::span(clip.right).subspan(sample, count)).ok());
    sample += count;
  }
  ASSERT_TRUE(writer->add_audio(std::span(clip.left).subspan(sample), std::span(clip.right).subspan(sample)).ok());
  const auto summary = writer->finish();
  ASSERT_TRUE(summary.ok()) << summary.error().text();
  const Clip whole = read_or_fail(folder / "whole.mp4"), pieces = read_or_fail(folder / "pieces.mp4");
  EXPECT_EQ(whole.rgb, pieces.rgb);
  EXPECT_EQ(whole.left, pieces.left);
  EXPECT_EQ(whole.right, pieces.right);
}

TEST(Mp4, A15_CancelInTheMiddleStopsEncoding) {
  const TempFolder folder;
  CancelToken cancel;
  int last = 0;
  {
    auto target = AtomicFile::create(folder / "clip.mp4");
    ASSERT_TRUE(target.ok());
    const auto written = write_mp4(moving_disc(124), target->temporary_path(), {}, {}, &cancel, [&](int done, int total) {
      EXPECT_EQ(total, 124);
      last = done;
      if (done == 60) cancel.cancel();
    });
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code, ErrorCode::interrupted);
    EXPECT_EQ(last, 60);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// At any point of writing: in the header, in the data, in the index at the end, and while the index is moved to the front.
TEST(Mp4, FullDiskIsReportedWhereverItHappens) {
  const TempFolder folder;
  const Clip clip = moving_disc(124);
  write_or_fail(clip, folder / "whole.mp4");
  const std::uintmax_t size = std::filesystem::file_size(folder / "whole.mp4");
  for (const std::uintmax_t limit : {std::uintmax_t{0}, std::uintmax_t{20}, size / 4, size / 2, size - 6000, size - 2000, size - 1}) {
    Result<Mp4Summary> written = Error{};
    {
      const FileSizeLimit lowered(limit);
      written = write_mp4(clip, folder / "clip.mp4");
    }
    ASSERT_FALSE(written.ok()) << limit << " of " << size;
    EXPECT_EQ(written.error().code, ErrorCode::does_not_fit) << written.error().text();
    EXPECT_NE(written.error().message.find("clip.mp4"), std::string::npos) << written.error().text();
  }
  const FileSizeLimit exact(size);
  EXPECT_TRUE(write_mp4(clip, folder / "clip.mp4").ok());
}

TEST(Mp4, FullDeviceIsReported) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const auto written = write_mp4(moving_disc(), "/dev/full");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, ErrorCode::does_not_fit) << written.error().text();
}

TEST(Mp4, UnwritableFolderIsReported) {
  const TempFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "file", "not a folder").ok());
  for (const auto& path : {folder / "missing/clip.mp4", folder / "file/clip.mp4", folder.path()}) {
    const auto written = write_mp4(moving_disc(5), path);
    ASSERT_FALSE(written.ok()) << path;
    EXPECT_EQ(written.error().code, ErrorCode::failure);
    EXPECT_NE(written.error().message.find(path.string()), std::string::npos) << written.error().text();
  }
}

struct BadCase {
  const char* name;
  std::function<void(Clip&, Mp4Options&, Mp4Tags&)> spoil;
  ErrorCode code;
  const char* mentions;
};

TEST(Mp4, BadInputIsRefusedByName) {
  const TempFolder folder;
  const BadCase cases[] = {
      {"odd width", [](Clip& c, Mp4Options&, Mp4Tags&) { c = moving_disc(1, 95, 96); }, ErrorCode::usage, "95x96"},
      {"no size", [](Clip& c, Mp4Options&, Mp4Tags&) { c.width = 0, c.rgb.clear(); }, ErrorCode::usage, "0x96"},
      {"no frames", [](Clip& c, Mp4Options&, Mp4Tags&) { c.frames = 0, c.rgb.clear(); }, ErrorCode::failure, "no frame"},
      {"frame rate", [](Clip& c, Mp4Options&, Mp4Tags&) { c.fps_num = 0; }, ErrorCode::usage, "frame rate"},
      {"short buffer", [](Clip& c, Mp4Options&, Mp4Tags&) { c.rgb.pop_back(); }, ErrorCode::failure, "bytes"},
      {"channels differ", [](Clip& c, Mp4Options&, Mp4Tags&) { c.right.pop_back(); }, ErrorCode::failure, "channels"},
      {"nan", [](Clip& c, Mp4Options&, Mp4Tags&) { c.right[77] = NAN; }, ErrorCode::rejected, "sample 77 of the right"},
      {"crf", [](Clip&, Mp4Options& o, Mp4Tags&) { o.crf = 0; }, ErrorCode::usage, "CRF 0"},
      {"preset", [](Clip&, Mp4Options& o, Mp4Tags&) { o.preset = "warp"; }, ErrorCode::usage, "warp"},
      {"tag", [](Clip&, Mp4Options&, Mp4Tags& t) { t.others["title"] = std::string("a\0b", 3); }, ErrorCode::usage, "title"},
  };
  for (const BadCase& bad : cases) {
    Clip clip = moving_disc();
    Mp4Options options;
    Mp4Tags tags;
    bad.spoil(clip, options, tags);
    const auto written = write_mp4(clip, folder / "clip.mp4", options, tags);
    ASSERT_FALSE(written.ok()) << bad.name;
    EXPECT_EQ(written.error().code, bad.code) << bad.name << ": " << written.error().text();
    EXPECT_NE(written.error().text().find(bad.mentions), std::string::npos) << bad.name << ": " << written.error().text();
  }
}

}  // namespace
}  // namespace tritium
