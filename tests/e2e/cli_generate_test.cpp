// "tritium generate" as its users meet it: what it writes, that a seed means one clip, and what it prints.
#include "media/reader.h"
#include "sampler/noise.h"
#include "support/tritium_program.h"
#include "weights/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tritium::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kPrompt = "a red circle moves to the right on a blue background with a low tone";
// Enough for everything but quality.
const Arguments kQuick = {"generate", kPrompt, "--frames", "5", "--steps", "2", "--seed", "7"};

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

Clip clip_of(const fs::path& path) {
  auto clip = read_clip(path);
  EXPECT_TRUE(clip.ok()) << clip.error().text();
  return clip.ok() ? std::move(*clip) : Clip{};
}

MediaInfo media_of(const fs::path& path) {
  auto info = probe_media(path);
  EXPECT_TRUE(info.ok()) << info.error().text();
  return info.ok() ? std::move(*info) : MediaInfo{};
}

// Of `sum` against a + b.
double largest_error(const std::vector<float>& sum, const std::vector<float>& a, const std::vector<float>& b) {
  if (sum.size() != a.size() || sum.size() != b.size() || sum.empty()) return 1e9;
  double worst = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(sum[i]) - a[i] - b[i]));
  return worst;
}

class Generate : public TritiumProgram {
 protected:
  [[nodiscard]] Json sidecar(const std::string& video) const { return parse(bytes_of(path(video + ".json"))); }
  // The latents of a run as bytes.
  [[nodiscard]] std::string latents(const std::string& name, const Arguments& arguments) const {
    (void)succeed(arguments + Arguments{"-o", name + ".mp4", "--latents", name + ".safetensors"});
    return bytes_of(path(name + ".safetensors"));
  }
};

TEST_F(Generate, A23_TheVideoPlaysInEveryBrowser) {
  (void)succeed({"generate", kPrompt, "--seed", "7", "-o", "out.mp4"});
  const MediaInfo info = media_of(path("out.mp4"));
  const Json plan = sidecar("out.mp4").at("plan");
  ASSERT_TRUE(info.video && info.audio);
  EXPECT_EQ(info.video->codec, "h264");
  EXPECT_EQ(info.video->profile, "High");
  EXPECT_EQ(info.video->tag, "avc1");
  EXPECT_EQ(info.video->pixel_format, "yuv420p");
  EXPECT_EQ(info.video->fps_num, 24 * info.video->fps_den);
  EXPECT_EQ(info.video->frames, plan.at("frames").get<int>());
  EXPECT_EQ(info.video->width, plan.at("width").get<int>());
  EXPECT_EQ(info.video->height, plan.at("height").get<int>());
  EXPECT_EQ(info.audio->codec, "aac");
  EXPECT_EQ(info.audio->sample_rate, 32000);
  EXPECT_EQ(info.audio->channels, 2);
  EXPECT_LT(std::abs(info.video->seconds - info.audio->seconds), 1.0 / 24);
  EXPECT_EQ(info.moov_before_mdat, true);
}

TEST_F(Generate, EverythingAboutItsMakingIsInTheVideoAndBesideIt) {
  (void)succeed(kQuick + Arguments{"-o", "out.mp4", "--width", "100"});
  const MediaInfo info = media_of(path("out.mp4"));
  ASSERT_TRUE(info.metadata.contains("tritium"));
  const Json inside = parse(info.metadata.at("tritium"));
  EXPECT_EQ(inside, sidecar("out.mp4"));
  EXPECT_EQ(inside.at("request").at("prompt"), kPrompt);
  EXPECT_EQ(inside.at("request").at("width"), 100);
  EXPECT_EQ(inside.at("plan").at("width"), 128);
  EXPECT_EQ(inside.at("plan").at("seed"), 7);
  EXPECT_EQ(inside.at("plan").at("adjustments").at(0).at("field"), "width");
  EXPECT_FALSE(inside.at("version").get<std::string>().empty());
  EXPECT_FALSE(inside.at("model").at("weights").empty());
  for (const Json& file : inside.at("model").at("weights")) EXPECT_EQ(file.at("sha256").get<std::string>().size(), 64u) << file;
  for (const char* stage : {"load", "text", "denoise", "video", "audio"})
    EXPECT_GE(inside.at("timings").at(stage).get<double>(), 0) << stage;
  EXPECT_TRUE(inside.at("guard").at("problems").empty());
  EXPECT_EQ(info.metadata.at("title"), kPrompt);
}

// Square, wide and tall, whatever the model was trained on.
TEST_F(Generate, A32_TheOutputHasTheSizeThatWasAskedFor) {
  for (const auto& [width, height] : {std::pair(64, 64), std::pair(160, 64), std::pair(64, 128)}) {
    (void)succeed(kQuick + Arguments{"--width", std::to_string(width), "--height", std::to_string(height), "-o", "out.mp4"});
    const MediaInfo info = media_of(path("out.mp4"));
    ASSERT_TRUE(info.video);
    EXPECT_EQ(info.video->width, width);
    EXPECT_EQ(info.video->height, height);
  }
}

TEST_F(Generate, FramesSoundAndLatentsCanBeKept) {
  const Json result =
      json(kQuick + Arguments{"-o", "out.mp4", "--frames-dir", "frames", "--wav", "out.wav", "--latents", "out.safetensors", "--json"});
  const Json plan = result.at("plan");
  EXPECT_EQ(result.at("video"), "out.mp4");
  EXPECT_EQ(result.at("sidecar"), "out.mp4.json");
  EXPECT_EQ(result.at("timings").size(), 6u);
  EXPECT_EQ(files(), (std::set<std::string>{"frames", "out.mp4", "out.mp4.json", "out.wav", "out.safetensors"}));
  const Clip video = clip_of(path("out.mp4")), sound = clip_of(path("out.wav"));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("frames")), {}), video.frames);
  EXPECT_EQ(bytes_of(path("frames/frame_00000.png")).substr(1, 3), "PNG");
  EXPECT_EQ(sound.left.size(), plan.at("samples").get<std::size_t>());
  EXPECT_EQ(sound.right.size(), sound.left.size());
  EXPECT_EQ(sound.frames, 0);
  const auto latents = Checkpoint::open(path("out.safetensors"));
  ASSERT_TRUE(latents.ok()) << latents.error().text();
  EXPECT_EQ(Json(latents->find("video")->shape), plan.at("video_latents"));
  EXPECT_EQ(Json(latents->find("audio")->shape), plan.at("audio_latents"));
}

TEST_F(Generate, AVideoThatExistsIsReplacedAndAFreeNameTakenWithoutOne) {
  folder_.write("out.mp4", "not a video");
  (void)succeed(kQuick + Arguments{"-o", "out.mp4"});
  EXPECT_TRUE(media_of(path("out.mp4")).video);
  EXPECT_EQ(succeed(kQuick).out, "tritium.mp4\n");
  EXPECT_EQ(succeed(kQuick).out, "tritium-2.mp4\n");
}

TEST_F(Generate, AnyNameWillDo) {
  std::filesystem::create_directory(path("a folder"));
  for (const char* name : {"a folder/%d 'x': \\ü圆.mp4", "file:x.mp4", "-.mp4", "...mp4"}) {
    const Outcome outcome = succeed(kQuick + Arguments{std::string("--output=") + name, "--progress=none"});
    EXPECT_EQ(outcome.out, std::string(name) + "\n");
    EXPECT_TRUE(media_of(path(name)).video) << name;
    EXPECT_TRUE(fs::exists(path(name + std::string(".json")))) << name;
  }
}

TEST_F(Generate, ASeedMeansOneClip) {
  const std::string first = latents("first", kQuick);
  EXPECT_EQ(latents("again", kQuick), first);
  EXPECT_EQ(latents("one_thread", kQuick + Arguments{"--threads", "1"}), first);
  EXPECT_EQ(latents("two_threads", kQuick + Arguments{"--threads", "2"}), first);
  const Clip a = clip_of(path("first.mp4"));
  for (const char* same : {"again.mp4", "one_thread.mp4"}) {
    const Clip b = clip_of(path(same));
    EXPECT_TRUE(a.rgb == b.rgb) << same;
    EXPECT_TRUE(a.left == b.left && a.right == b.right) << same;
  }
  const Arguments other = {"generate", kPrompt, "--frames", "5", "--steps", "2", "--seed", "8"};
  EXPECT_NE(latents("other", other), first);
  const Clip c = clip_of(path("other.mp4"));
  EXPECT_TRUE(a.rgb != c.rgb);
  EXPECT_TRUE(a.left != c.left);
}

TEST_F(Generate, ADrawnSeedIsReportedAndRepeatsTheClip) {
  (void)succeed({"generate", kPrompt, "--frames", "5", "--steps", "1", "-o", "drawn.mp4"});
  const auto seed = sidecar("drawn.mp4").at("plan").at("seed").get<std::uint64_t>();
  (void)succeed({"generate", kPrompt, "--frames", "5", "--steps", "1", "-o", "again.mp4", "--seed", std::to_string(seed)});
  EXPECT_TRUE(clip_of(path("drawn.mp4")).rgb == clip_of(path("again.mp4")).rgb);
}

TEST_F(Generate, ProgressGoesToStandardErrorAsOneObjectPerLine) {
  const Outcome outcome =
      succeed(kQuick + Arguments{"-m", std::string(TRITIUM_SOURCE_DIR) + "/models/demo", "-o", "out.mp4", "--progress=json"});
  EXPECT_EQ(outcome.out, "out.mp4\n");
  std::istringstream lines(outcome.err);
  std::vector<std::string> stages;
  double before = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("warning: ")) continue;
    const Json event = parse(line);
    const double fraction = event.at("fraction").get<double>();
    EXPECT_GE(fraction, before);
    EXPECT_LE(fraction, 1);
    before = fraction;
    EXPECT_LE(event.at("step").get<int>(), event.at("of").get<int>());
    EXPECT_TRUE(event.at("eta_seconds").is_null() || event.at("eta_seconds").get<double>() >= 0);
    if (stages.empty() || stages.back() != event.at("stage").get<std::string>()) stages.push_back(event.at("stage"));
  }
  EXPECT_EQ(stages, (std::vector<std::string>{"load", "text", "denoise", "audio", "video", "write"}));
}

TEST_F(Generate, AdjustmentsAndWarningsAreSaid) {
  const Outcome outcome = succeed(
      {"generate", kPrompt, "--frames", "3", "--steps", "1", "--height", "65", "--seed", "4294967297", "--progress=none", "-o", "out.mp4"});
  for (const char* note : {"note: frames 3 -> 5 (", "note: height 65 -> 96 (", "warning: frames 5: the model was trained on 22",
                           "warning: seed 4294967297: only the low 32 bits count (1)", "using the bundled demo model"})
    EXPECT_NE(outcome.err.find(note), std::string::npos) << note << " is not in: " << outcome.err;
  EXPECT_EQ(sidecar("out.mp4").at("plan").at("adjustments").size(), 2u);
}

// One evaluation takes the whole way from noise to clean: the latents are the noise plus the velocities that were dumped.
TEST_F(Generate, DumpedTensorsAreTheOnesThatWereUsed) {
  const Arguments one = {"generate", kPrompt, "--frames", "5", "--steps", "1", "--seed", "7"};
  EXPECT_EQ(latents("dumped", one + Arguments{"--dump-tensors", "dump"}), latents("plain", one)) << "watching changes the result";
  std::map<std::string, fs::path> files;
  for (const auto& entry : fs::directory_iterator(path("dump"))) {
    const auto file = Checkpoint::open(entry.path());
    ASSERT_TRUE(file.ok()) << file.error().text();
    ASSERT_NE(file->find("value"), nullptr) << entry.path();
    const std::string name = entry.path().stem().string();
    ASSERT_GT(name.size(), 7u);
    files.emplace(name.substr(7), entry.path());  // "000123_<name>"
  }
  for (const char* expected : {"text.layer0.out", "dit.step0.block0.attn_in", "dit.step0.final.video", "dit.step0.final.audio"})
    EXPECT_TRUE(files.contains(expected)) << expected;
  const auto result = Checkpoint::open(path("dumped.safetensors"));
  ASSERT_TRUE(result.ok()) << result.error().text();
  const auto v = result->find("video")->shape, a = result->find("audio")->shape;
  const VideoLatentShape video{static_cast<int>(v[0]), static_cast<int>(v[1]), static_cast<int>(v[2]), static_cast<int>(v[3])};
  const AudioLatentShape audio{static_cast<int>(a[1]), static_cast<int>(a[2])};
  const Latents noise = draw_initial_noise(NoiseMode::diffsynth, 7, video, audio);
  const auto velocity = [&](const char* name) { return *Checkpoint::open(files.at(name))->read_f32("value"); };
  EXPECT_LT(largest_error(*result->read_f32("video"), noise.video, *unpatchify_video(video, velocity("dit.step0.final.video"))), 1e-6);
  EXPECT_LT(largest_error(*result->read_f32("audio"), noise.audio, *unpatchify_audio(audio, velocity("dit.step0.final.audio"))), 1e-6);
}

}  // namespace
}  // namespace tritium::test
