// A run that was interrupted goes on from its checkpoint with the same bits; what does not belong to it is passed over.
#include "base/files.h"
#include "media/jpeg_writer.h"
#include "media/picture.h"
#include "unit/temp_folder.h"

#include <tritium/engine.h>

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

namespace tritium {
namespace {

namespace fs = std::filesystem;

class Checkpoints : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { engine_ = open().release(); }
  static void TearDownTestSuite() { delete engine_; }
  static std::unique_ptr<Engine> open(const EngineOptions& more = {}) {
    EngineOptions options = more;
    options.model = fs::path(TRITIUM_SOURCE_DIR) / "models/demo";
    options.device = "CPU";
    auto out = Engine::open(options);
    EXPECT_TRUE(out.ok()) << out.error().text();
    return out.ok() ? std::move(*out) : nullptr;
  }

  void SetUp() override {
    request_.prompt = "a red circle moves to the right on a blue background with a low tone";
    request_.frames = 5;
    request_.steps = 6;
    request_.seed = 3;
    request_.force = true;
  }

  [[nodiscard]] fs::path checkpoint() const { return folder_.path() / "checkpoint"; }
  [[nodiscard]] OutputOptions output(const std::string& name) const {
    OutputOptions out;
    const fs::path folder = folder_.path() / name;
    fs::create_directories(folder);
    out.video = folder / "clip.mp4";
    out.frames_dir = folder / "frames";
    out.wav = folder / "clip.wav";
    out.latents = folder / "clip.safetensors";
    out.thumbnail = folder / "clip.jpg";
    return out;
  }
  [[nodiscard]] OutputOptions kept(const std::string& name, int steps = 1) const {
    OutputOptions out = output(name);
    out.checkpoint = checkpoint();
    out.checkpoint_steps = steps;
    return out;
  }
  // Everything of a result that is promised to have the same bits.
  [[nodiscard]] std::map<std::string, std::string> bits(const std::string& name) const {
    std::map<std::string, std::string> out;
    const fs::path folder = folder_.path() / name;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file() || entry.path().string().find(".mp4") != std::string::npos) continue;
      out[entry.path().lexically_relative(folder).string()] = *read_file(entry.path());
    }
    EXPECT_EQ(out.size(), 8u);  // 5 pictures, sound, latents, thumbnail
    return out;
  }
  Artifact make(const OutputOptions& where, const GenerateHooks& hooks = {}) {
    auto out = engine_->generate(request_, where, hooks, nullptr);
    EXPECT_TRUE(out.ok()) << out.error().text();
    return out.ok() ? *out : Artifact{};
  }
  // Runs until a stage reports `step` (in units of that stage) and cancels there.
  void interrupt(const OutputOptions& where, const std::string& stage, int percent) {
    CancelToken cancel;
    const auto out = engine_->generate(
        request_, where,
        [&](const Progress& p) {
          if (p.stage == stage && p.of > 0 && 100 * p.step >= percent * p.of) cancel.cancel();
        },
        &cancel);
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().code, ErrorCode::interrupted);
  }
  // The first report of denoising that counts, in percent; -1: there was none.
  int resumed_at(const OutputOptions& where, Artifact* artifact = nullptr) {
    int first = -1;
    Artifact made = make(where, {{}, [&](const Progress& p) {
                                   if (p.stage == "denoise" && p.of > 0 && first < 0) first = 100 * p.step / p.of;
                                 }});
    if (artifact != nullptr) *artifact = std::move(made);
    return first;
  }
  static bool warned(const Artifact& artifact, const std::string& text) {
    return std::any_of(artifact.warnings.begin(), artifact.warnings.end(),
                       [&](const std::string& warning) { return warning.find(text) != std::string::npos; });
  }

  static Engine* engine_;
  test::MemoryFolder folder_;
  Request request_;
};
Engine* Checkpoints::engine_ = nullptr;

TEST_F(Checkpoints, ARunWithThemGivesTheSame) {
  make(output("without"));
  make(kept("with"));
  EXPECT_EQ(bits("without"), bits("with"));
  EXPECT_TRUE(fs::exists(checkpoint() / "conditioning.safetensors"));
  EXPECT_TRUE(fs::exists(checkpoint() / "latents.safetensors"));
  // Everything is there: nothing is denoised again.
  EXPECT_EQ(resumed_at(kept("again")), -1);
  EXPECT_EQ(bits("without"), bits("again"));
}

TEST_F(Checkpoints, AnInterruptedRunGoesOnWithTheSameBits) {
  make(output("whole"));
  for (const auto& [stage, percent, from] :
       {std::tuple("denoise", 20, 0), std::tuple("denoise", 75, 50), std::tuple("video", 50, -1), std::tuple("audio", 50, -1)}) {
    interrupt(kept("part", 2), stage, percent);
    delete std::exchange(engine_, open().release());  // as another process
    const int at = resumed_at(kept("resumed", 2));
    EXPECT_EQ(bits("whole"), bits("resumed")) << stage << " " << percent;
    if (from < 0)
      EXPECT_EQ(at, -1) << stage;
    else
      EXPECT_GE(at, from) << stage << " " << percent;
    fs::remove_all(checkpoint());
    fs::remove_all(folder_.path() / "resumed");
  }
}

// What an acceleration remembers is kept with the state, or no state is kept where it would be missing.
TEST_F(Checkpoints, AnAcceleratedRunGoesOnWithTheSameBits) {
  request_.steps = 12;
  Acceleration velocities, cores, easycache, blocks;
  velocities.reuse_velocity = 3;
  cores.reuse_core = 3;
  easycache.easycache = 0.2;
  blocks.blocks = 4;
  blocks.reuse_core = 2;
  for (const Acceleration& each : {velocities, cores, easycache, blocks}) {
    request_.acceleration = each;
    const Artifact whole = make(output("whole"));
    for (const int percent : {30, 55, 75}) {
      interrupt(kept("part"), "denoise", percent);
      delete std::exchange(engine_, open().release());  // as another process
      Artifact resumed;
      EXPECT_GE(resumed_at(kept("resumed"), &resumed), 15) << percent;
      EXPECT_EQ(bits("whole"), bits("resumed")) << percent;
      EXPECT_EQ(resumed.plan.computed_evaluations, whole.plan.computed_evaluations);
      fs::remove_all(checkpoint());
      fs::remove_all(folder_.path() / "resumed");
    }
    fs::remove_all(folder_.path() / "whole");
  }
}

TEST_F(Checkpoints, ADraftsLatentsAreThoseOfTheClip) {
  request_.frames = 22;
  make(output("whole"));
  request_.acceleration.draft = true;
  make(kept("draft"));
  request_.acceleration.draft = false;
  EXPECT_EQ(resumed_at(kept("clip")), -1) << "only decoded";
  EXPECT_EQ(*read_file(folder_.path() / "whole" / "clip.safetensors"), *read_file(folder_.path() / "clip" / "clip.safetensors"));
}

TEST_F(Checkpoints, WithPicturesToo) {
  const auto jpeg = encode_jpeg({32, 32, std::vector<std::uint8_t>(32 * 32 * 3, 90)});
  ASSERT_TRUE(jpeg.ok());
  request_.first_frame = folder_.write("first.jpg", *jpeg);
  make(output("whole"));
  interrupt(kept("part"), "denoise", 60);
  EXPECT_GE(resumed_at(kept("resumed")), 30);
  EXPECT_EQ(bits("whole"), bits("resumed"));
  // Another picture under the same name is another request.
  interrupt(kept("part"), "video", 50);
  folder_.write("first.jpg", *encode_jpeg({32, 32, std::vector<std::uint8_t>(32 * 32 * 3, 200)}));
  Artifact artifact;
  EXPECT_LT(resumed_at(kept("other"), &artifact), 10);
  EXPECT_TRUE(warned(artifact, "another request"));
}

TEST_F(Checkpoints, ThoseOfOthersAreNotUsed) {
  make(output("whole"));
  interrupt(kept("part"), "denoise", 60);
  const std::string left = *read_file(checkpoint() / "latents.safetensors");
  for (const auto& change : std::vector<std::function<void(Request&)>>{
           [](Request& r) { r.seed = 4; }, [](Request& r) { r.steps = 7; }, [](Request& r) { r.prompt += "!"; },
           [](Request& r) { r.video_shift = 9; }, [](Request& r) { r.acceleration.reuse_velocity = 2; },
           [](Request& r) { r.acceleration.blocks = 4; }, [](Request& r) { r.acceleration.easycache = 0.1; }}) {
    const Request before = request_;
    change(request_);
    ASSERT_TRUE(write_file_atomically(checkpoint() / "latents.safetensors", left).ok());
    Artifact artifact;
    EXPECT_LT(resumed_at(kept("other", 0), &artifact), 10);
    EXPECT_TRUE(warned(artifact, "another request"));
    request_ = before;
  }
}

TEST_F(Checkpoints, DamagedOnesAreNotUsed) {
  make(output("whole"));
  interrupt(kept("part"), "denoise", 60);
  const fs::path file = checkpoint() / "latents.safetensors";
  const std::string whole = *read_file(file);
  std::string flipped = whole;
  flipped[flipped.size() - 9] ^= 1;
  for (const std::string& content : {flipped, whole.substr(0, whole.size() / 2), std::string("nonsense"), std::string()}) {
    ASSERT_TRUE(write_file_atomically(file, content).ok());
    Artifact artifact;
    EXPECT_LT(resumed_at(kept("resumed", 0), &artifact), 10);
    EXPECT_TRUE(warned(artifact, "it is damaged"));
    EXPECT_EQ(bits("whole"), bits("resumed"));
    fs::remove_all(folder_.path() / "resumed");
  }
}

TEST_F(Checkpoints, AFolderThatCannotBeWrittenIsOnlyAWarning) {
  OutputOptions where = kept("out");
  where.checkpoint = folder_.write("file", "") / "below";
  const Artifact artifact = make(where);
  EXPECT_TRUE(warned(artifact, "no checkpoint can be written"));
}

// A9: cancelling acts within a block of the transformer.
TEST_F(Checkpoints, A9_CancelledWithinABlock) {
  CancelToken cancel;
  int after = 0;
  const auto out = engine_->generate(
      request_, output("out"),
      [&](const Progress& p) {
        if (cancel.cancelled()) ++after;
        if (p.stage == "denoise" && p.step == 3) cancel.cancel();
      },
      &cancel);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code, ErrorCode::interrupted);
  EXPECT_EQ(after, 0) << "no further block was finished";
}

TEST_F(Checkpoints, PreviewsComeOnceAClipIsKnownAndChangeNothing) {
  const auto engine = open();
  int shown = 0;
  std::string last;
  GenerateHooks hooks;
  hooks.preview = [&](const std::string& jpeg) {
    ++shown;
    last = jpeg;
  };
  make(output("without"));
  ASSERT_TRUE(engine->generate(request_, output("first"), hooks, nullptr).ok());
  EXPECT_EQ(shown, 0) << "nothing is known yet";
  ASSERT_TRUE(engine->generate(request_, output("second"), hooks, nullptr).ok());
  EXPECT_GT(shown, 0);
  EXPECT_LE(shown, 5);
  EXPECT_EQ(bits("without"), bits("second"));
  const auto picture = load_picture(folder_.write("preview.jpg", last));
  ASSERT_TRUE(picture.ok()) << picture.error().text();
  EXPECT_EQ(picture->width, 24) << "four pixels for each of the 6 cells of 96 pixels";
  // The last one looks like the clip: compare it with the thumbnail, both blurred to one cell.
  const auto thumbnail = load_picture(folder_.path() / "second" / "clip.jpg");
  ASSERT_TRUE(thumbnail.ok());
  EXPECT_EQ(thumbnail->width, 96);
  double difference = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    double sums[2] = {0, 0};
    for (std::size_t i = c; i < picture->rgb.size(); i += 3) sums[0] += picture->rgb[i] / (picture->rgb.size() / 3.0);
    for (std::size_t i = c; i < thumbnail->rgb.size(); i += 3) sums[1] += thumbnail->rgb[i] / (thumbnail->rgb.size() / 3.0);
    difference += std::abs(sums[0] - sums[1]);
  }
  EXPECT_LT(difference, 60) << "of 765";
}

}  // namespace
}  // namespace tritium
