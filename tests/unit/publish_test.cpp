// Results on disk: names, what goes into them, and that nothing is left when something goes wrong.
#include "pipeline/publish.h"
#include "pipeline/clip_writer.h"

#include "base/hash.h"
#include "media/mp4_writer.h"
#include "media/reader.h"
#include "pipeline/frame_queue.h"
#include "unit/demo_plan.h"
#include "unit/file_size_limit.h"
#include "unit/media_clips.h"
#include "weights/checkpoint.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace tritium {
namespace {

namespace fs = std::filesystem;

TEST(ResultNames, FollowTheVideo) {
  EXPECT_EQ(sidecar_of("a/out.mp4"), "a/out.mp4.json");
  EXPECT_EQ(rejected_name("a/out.mp4"), "a/out.rejected.mp4");
  EXPECT_EQ(rejected_name("a.b/out.v2.mp4"), "a.b/out.v2.rejected.mp4");
}

class Publish : public test::DemoPlan {
 protected:
  void SetUp() override {
    DemoPlan::SetUp();
    output_ = {folder_.path() / "out.mp4", {}, {}, {}};
    plan_ = plan();
    clip_ = test::moving_disc(plan_.frames, plan_.width, plan_.height);
    latents_.video.assign(static_cast<std::size_t>(plan_.latent_channels) * plan_.latent_frames * plan_.latent_height * plan_.latent_width,
                          0.25f);
    latents_.audio.assign(2 * static_cast<std::size_t>(plan_.audio_dim) * plan_.audio_latents, -0.5f);
  }
  // The clip, frame by frame. `ahead`: frames that may wait for the encoder; `seen` is called before a frame is handed over.
  Result<void> publish(const std::string& metadata = R"({"a": 1})", const CancelToken* cancel = nullptr,
                       const std::function<void(int frame)>& seen = {}, std::size_t ahead = 0) {
    auto reserved = reserve_output(output_, plan_);
    if (!reserved.ok()) return reserved.error();
    auto writer = ClipWriter::open(std::move(*reserved), output_, plan_, {clip_.sample_rate, clip_.left, clip_.right}, cancel);
    if (!writer.ok()) return writer.error();
    FrameQueue frames([&](const std::vector<std::uint8_t>& rgb) { return writer->add(rgb); }, ahead);
    for (int i = 0; i < clip_.frames; ++i) {
      if (seen) seen(i + 1);
      const auto rgb = clip_.frame(i);
      if (auto added = frames.add({rgb.begin(), rgb.end()}); !added.ok()) return added;
    }
    if (auto finished = frames.finish(); !finished.ok()) return finished;
    return writer->publish(latents_, writer->inspect(), metadata);
  }
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_.path())) out.insert(entry.path().filename().string());
    return out;
  }

  test::TempFolder folder_;
  OutputOptions output_;
  Plan plan_;
  Clip clip_;
  Latents latents_;
};

TEST_F(Publish, AVideoWithItsDocumentInsideAndBeside) {
  const auto done = publish(R"({"prompt": "a red circle"})");
  ASSERT_TRUE(done.ok()) << done.error().text();
  EXPECT_EQ(files(), (std::set<std::string>{"out.mp4", "out.mp4.json"}));
  const auto info = probe_media(output_.video);
  ASSERT_TRUE(info.ok()) << info.error().text();
  EXPECT_EQ(info->metadata.at("tritium") + "\n", *read_file(sidecar_of(output_.video)));
  EXPECT_EQ(info->metadata.at("title"), plan_.prompt);
  EXPECT_NE(info->metadata.at("comment").find("seed 7"), std::string::npos);
}

// Whether frames come one by one, run ahead of the encoder, or are all there: the same file.
TEST_F(Publish, AFileDoesNotShowHowItsFramesCame) {
  const Mp4Tags tags{"{}", {{"title", plan_.prompt}, {"comment", "Tritium " + std::string(version()) + ", seed 7"}}};
  const fs::path whole = folder_.path() / "whole.mp4";
  ASSERT_TRUE(write_mp4(clip_, whole, {}, tags).ok());
  for (const std::size_t ahead : {0, 1, 5}) {
    const auto done = publish("{}", nullptr, {}, ahead);
    ASSERT_TRUE(done.ok()) << done.error().text();
    EXPECT_EQ(*read_file(output_.video), *read_file(whole)) << ahead;
  }
}

TEST_F(Publish, TheGuardsSeeWhatTheyWouldSeeInTheWholeClip) {
  std::fill_n(clip_.rgb.begin(), 3 * clip_.frame_bytes(), std::uint8_t{0});
  clip_.right.assign(clip_.right.size(), 0.0f);
  auto reserved = reserve_output(output_, plan_);
  ASSERT_TRUE(reserved.ok());
  auto writer = ClipWriter::open(std::move(*reserved), output_, plan_, {clip_.sample_rate, clip_.left, clip_.right}, nullptr);
  ASSERT_TRUE(writer.ok()) << writer.error().text();
  for (int i = 0; i < clip_.frames; ++i) ASSERT_TRUE(writer->add(clip_.frame(i)).ok());
  const GuardReport frames = writer->inspect(), whole = inspect_clip(clip_, {plan_.frames, plan_.width, plan_.height, plan_.samples});
  EXPECT_EQ(frames.problems, whole.problems);
  EXPECT_EQ(frames.warnings, whole.warnings);
  EXPECT_EQ(frames.warnings.size(), 2u) << "black frames, a silent channel";
  EXPECT_EQ(frames.black_frames, 3);
  EXPECT_EQ(frames.mean_luma, whole.mean_luma);
  EXPECT_EQ(frames.change, whole.change);
  EXPECT_EQ(frames.right_db, whole.right_db);
}

TEST_F(Publish, AFrameThatIsMissingIsAProblem) {
  --clip_.frames;
  clip_.rgb.resize(clip_.rgb.size() - clip_.frame_bytes());
  const auto done = publish();
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::rejected);
  EXPECT_NE(done.error().message.find("21 frames"), std::string::npos) << done.error().text();
}

TEST_F(Publish, EverythingThatWasAskedFor) {
  output_.frames_dir = folder_.path() / "deep" / "frames";
  output_.wav = folder_.path() / "out.wav";
  output_.latents = folder_.path() / "out.safetensors";
  const auto done = publish();
  ASSERT_TRUE(done.ok()) << done.error().text();
  EXPECT_EQ(files(), (std::set<std::string>{"deep", "out.mp4", "out.mp4.json", "out.wav", "out.safetensors"}));
  EXPECT_EQ(std::distance(fs::directory_iterator(output_.frames_dir), {}), plan_.frames);
  const auto latents = Checkpoint::open(output_.latents);
  ASSERT_TRUE(latents.ok()) << latents.error().text();
  EXPECT_EQ(latents->find("video")->shape,
            (std::vector<std::int64_t>{plan_.latent_channels, plan_.latent_frames, plan_.latent_height, plan_.latent_width}));
  EXPECT_EQ(latents->find("audio")->shape, (std::vector<std::int64_t>{2, plan_.audio_dim, plan_.audio_latents}));
  EXPECT_EQ(*latents->read_f32("audio"), latents_.audio);
  EXPECT_EQ(latents->files().front().header().metadata.at("seed"), "7");
}

TEST_F(Publish, ARefusedClipGetsAnotherNameAndNoExtras) {
  output_.wav = folder_.path() / "out.wav";
  output_.latents = folder_.path() / "out.safetensors";
  std::fill(clip_.rgb.begin(), clip_.rgb.end(), std::uint8_t{0});
  const auto done = publish();
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::rejected);
  EXPECT_NE(done.error().message.find("black"), std::string::npos);
  EXPECT_NE(done.error().hint.find("out.rejected.mp4"), std::string::npos) << done.error().text();
  EXPECT_EQ(files(), (std::set<std::string>{"out.rejected.mp4", "out.rejected.mp4.json"}));
}

TEST_F(Publish, ACancelledOneLeavesNothing) {
  output_.wav = folder_.path() / "out.wav";
  for (const int at : {1, plan_.frames / 2, plan_.frames}) {
    for (const std::size_t ahead : {0, 4}) {
      CancelToken cancel;
      const auto done = publish(
          "{}", &cancel,
          [&](int frame) {
            if (frame == at) cancel.cancel();
          },
          ahead);
      ASSERT_FALSE(done.ok()) << at;
      EXPECT_EQ(done.error().code, ErrorCode::interrupted);
      EXPECT_EQ(files(), std::set<std::string>{}) << at;
    }
  }
}

// Stopped by whoever makes the frames, with some of them still waiting.
TEST_F(Publish, AClipThatIsNeverCompleteLeavesNothing) {
  output_.frames_dir = folder_.path() / "frames";
  {
    auto reserved = reserve_output(output_, plan_);
    ASSERT_TRUE(reserved.ok());
    auto writer = ClipWriter::open(std::move(*reserved), output_, plan_, {clip_.sample_rate, clip_.left, clip_.right}, nullptr);
    ASSERT_TRUE(writer.ok()) << writer.error().text();
    FrameQueue frames([&](const std::vector<std::uint8_t>& rgb) { return writer->add(rgb); }, 8);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(frames.add({clip_.frame(i).begin(), clip_.frame(i).end()}).ok());
  }
  EXPECT_EQ(files(), std::set<std::string>{});
}

// Whoever makes the frames learns of it, and need not make the others.
TEST_F(Publish, ADiskThatFillsUpStopsTheFrames) {
  for (const std::size_t ahead : {0, 2}) {
    int last = 0;
    Result<void> done;
    {
      const test::FileSizeLimit limit(2000);
      done = publish(
          "{}", nullptr, [&](int frame) { last = frame; }, ahead);
    }
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, ErrorCode::does_not_fit) << done.error().text();
    EXPECT_NE(done.error().message.find("'" + output_.video.string() + "'"), std::string::npos) << done.error().text();
    EXPECT_EQ(files(), std::set<std::string>{});
  }
}

// The name was free when the work began, but is not when it ends: then what was written beside it goes too.
TEST_F(Publish, ANameThatCannotBeTakenAtTheEndLeavesNothing) {
  output_.wav = folder_.path() / "out.wav";
  output_.latents = folder_.path() / "out.safetensors";
  const auto done = publish("{}", nullptr, [&](int frame) {
    if (frame == 1) fs::create_directories(output_.video / "taken");
  });
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("out.mp4"), std::string::npos) << done.error().text();
  EXPECT_EQ(files(), std::set<std::string>{"out.mp4"}) << "the folder that is in the way";
}

TEST_F(Publish, OutputsAreCheckedBeforeTheWork) {
  const auto refused = [&](const OutputOptions& output, ErrorCode code, const std::string& field) {
    const auto reserved = reserve_output(output, plan_);
    ASSERT_FALSE(reserved.ok()) << field;
    EXPECT_EQ(reserved.error().code, code) << reserved.error().text();
    EXPECT_EQ(reserved.error().field, field) << reserved.error().text();
    EXPECT_EQ(files(), std::set<std::string>{});
  };
  const fs::path video = folder_.path() / "out.mp4", nowhere = folder_.path() / "missing" / "x";
  refused({}, ErrorCode::usage, "output");
  refused({folder_.path() / "out.mkv", {}, {}, {}}, ErrorCode::usage, "output");
  refused({nowhere.string() + ".mp4", {}, {}, {}}, ErrorCode::failure, "");
  refused({video, {}, nowhere, {}}, ErrorCode::failure, "wav");
  refused({video, {}, {}, nowhere}, ErrorCode::failure, "latents");
  refused({video, {}, folder_.path() / "." / "out.mp4", {}}, ErrorCode::usage, "wav");
  const OutputOptions deep{video, folder_.path() / "made" / "when" / "needed", {}, {}};
  EXPECT_TRUE(reserve_output(deep, plan_).ok());
  EXPECT_EQ(files(), std::set<std::string>{}) << "looking creates nothing";
}

TEST_F(Publish, TooLittleSpaceIsRefusedWithNumbers) {
  plan_.output_bytes = std::uint64_t{1} << 60;
  const auto reserved = reserve_output(output_, plan_);
  ASSERT_FALSE(reserved.ok());
  EXPECT_EQ(reserved.error().code, ErrorCode::does_not_fit);
  EXPECT_NE(reserved.error().message.find("free, the video may need"), std::string::npos) << reserved.error().text();
  EXPECT_EQ(files(), std::set<std::string>{});
}

TEST_F(Publish, TheDocumentHoldsTheRequestAsItWasMade) {
  const auto model = open_model(fs::path(TRITIUM_SOURCE_DIR) / "models/demo");
  ASSERT_TRUE(model.ok());
  const auto weights = weight_fingerprints(*model, nullptr);
  ASSERT_TRUE(weights.ok()) << weights.error().text();
  request.prompt = "caf\xe9";  // never accepted from outside; even so the document must be JSON
  request.frames = 20;
  plan_ = plan();
  const GuardReport guard = inspect_clip(clip_, {plan_.frames, plan_.width, plan_.height, plan_.samples});
  const std::vector<StageTiming> timings = {{"denoise", 1.5}};
  const auto json = nlohmann::json::parse(metadata_json({request, plan_, *model, *weights, timings, guard, 3}), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json.at("generator"), "tritium");
  EXPECT_EQ(json.at("version"), version());
  EXPECT_EQ(json.at("request").at("frames"), 20);
  EXPECT_FALSE(json.at("request").contains("width")) << "what was not asked for is not in the request";
  EXPECT_EQ(json.at("plan").at("frames"), 22);
  EXPECT_EQ(json.at("timings").at("denoise"), 1.5);
  EXPECT_EQ(json.at("threads"), 3);
  EXPECT_EQ(json.at("guard").at("black_frames"), 0);
  std::size_t files = 0;
  for (const auto& entry : json.at("model").at("weights")) {
    const fs::path file = model->root / entry.at("file").get<std::string>();
    EXPECT_EQ(entry.at("bytes").get<std::uint64_t>(), fs::file_size(file));
    EXPECT_EQ(entry.at("sha256").get<std::string>(), *sha256_file(file));
    ++files;
  }
  EXPECT_EQ(files, 4u);
}

TEST_F(Publish, HashingCanBeCancelled) {
  const auto model = open_model(fs::path(TRITIUM_SOURCE_DIR) / "models/demo");
  ASSERT_TRUE(model.ok());
  CancelToken cancel;
  cancel.cancel();
  const auto weights = weight_fingerprints(*model, &cancel);
  ASSERT_FALSE(weights.ok());
  EXPECT_EQ(weights.error().code, ErrorCode::interrupted);
}

}  // namespace
}  // namespace tritium
