// Cancelling at every stage, from within its progress, so that the moment is certain: the work stops, says where, and leaves nothing
// behind.
#include "unit/temp_folder.h"

#include <tritium/engine.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace tritium {
namespace {

namespace fs = std::filesystem;

class Cancelled : public ::testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model = fs::path(TRITIUM_SOURCE_DIR) / "models/demo";
    auto opened = Engine::open(options);
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    engine_ = std::move(*opened);
    request_.prompt = "a red circle moves to the right";
    request_.frames = 5;
    request_.steps = 2;
    request_.seed = 1;
  }
  [[nodiscard]] OutputOptions output() const {
    return {folder_.path() / "out.mp4", folder_.path() / "frames", folder_.path() / "out.wav", folder_.path() / "out.safetensors"};
  }
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_.path())) out.insert(entry.path().filename().string());
    return out;
  }

  test::TempFolder folder_;
  std::unique_ptr<Engine> engine_;
  Request request_;
};

// How often each stage reports; the first run also loads the weights.
TEST_F(Cancelled, AtEveryReportOfEveryStage) {
  std::map<std::string, int> reports;
  const auto whole = engine_->generate(request_, output(), [&](const Progress& p) { ++reports[p.stage]; });
  ASSERT_TRUE(whole.ok()) << whole.error().text();
  ASSERT_EQ(reports.size(), 6u);
  for (const char* name : {"out.mp4", "out.mp4.json", "out.wav", "out.safetensors", "frames"}) fs::remove_all(folder_.path() / name);

  int attempts = 0;
  for (const auto& [stage, count] : reports) {
    if (stage == "load") continue;  // done already, see below
    for (const int at : std::set<int>{1, (count + 1) / 2, count}) {
      CancelToken cancel;
      int seen = 0;
      Request request = request_;  // the encoding of a prompt that was seen before is not computed again
      request.prompt += fmt::format(", take {:02}", ++attempts);
      const auto outcome = engine_->generate(
          request, output(),
          [&, wanted = stage](const Progress& p) {
            if (p.stage == wanted && ++seen == at) cancel.cancel();
          },
          &cancel);
      ASSERT_FALSE(outcome.ok()) << stage << ", report " << at << " of " << count;
      EXPECT_EQ(outcome.error().code, ErrorCode::interrupted) << outcome.error().text();
      EXPECT_NE(outcome.error().message.find("interrupted during "), std::string::npos) << outcome.error().text();
      EXPECT_EQ(files(), std::set<std::string>{}) << stage << ", report " << at << " of " << count;
    }
  }
  const auto after = engine_->generate(request_, output());
  EXPECT_TRUE(after.ok()) << "the engine is of no use after a cancelled run: " << after.error().text();
}

TEST_F(Cancelled, WhileLoading) {
  for (const int at : {1, 2, 50, 100}) {
    SetUp();  // nothing loaded
    CancelToken cancel;
    int seen = 0;
    const auto outcome = engine_->generate(
        request_, output(),
        [&](const Progress& p) {
          if (p.stage == "load" && ++seen == at) cancel.cancel();
        },
        &cancel);
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code, ErrorCode::interrupted) << outcome.error().text();
    EXPECT_EQ(files(), std::set<std::string>{});
    const auto after = engine_->generate(request_, {.video = folder_.path() / "out.mp4"});
    ASSERT_TRUE(after.ok()) << "the engine is of no use after a cancelled load: " << after.error().text();
    for (const auto& written : {after->video, after->sidecar}) fs::remove(written);
  }
}

TEST_F(Cancelled, BeforeItBegan) {
  CancelToken cancel;
  cancel.cancel();
  const auto outcome = engine_->generate(request_, output(), GenerateHooks{}, &cancel);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, ErrorCode::interrupted);
  EXPECT_EQ(files(), std::set<std::string>{});
}

// What an earlier run made stays as it was.
TEST_F(Cancelled, AnEarlierResultIsNotTouched) {
  ASSERT_TRUE(engine_->generate(request_, {.video = folder_.path() / "out.mp4"}).ok());
  const auto size = fs::file_size(folder_.path() / "out.mp4");
  const auto before = files();
  CancelToken cancel;
  request_.seed = 2;
  const auto outcome = engine_->generate(
      request_, {.video = folder_.path() / "out.mp4"},
      [&](const Progress& p) {
        if (p.stage == "write") cancel.cancel();
      },
      &cancel);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(files(), before);
  EXPECT_EQ(fs::file_size(folder_.path() / "out.mp4"), size);
}

}  // namespace
}  // namespace tritium
