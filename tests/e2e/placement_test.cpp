// Stages on devices of their own, and a transformer split by layers: the same latents, bit for bit, on the same kind of device.
#include "e2e/demo_stages.h"
#include "support/lora_maker.h"
#include "unit/temp_folder.h"

#include "model/dit/lora.h"

#include <tritium/engine.h>

#include <gtest/gtest.h>
#include <algorithm>
#include <thread>

namespace tritium {
namespace {

using demo::require;

class PlacedStages : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> open(const std::string& device, std::vector<std::string> budgets = {}) const {
    EngineOptions options;
    options.model = demo::folder();
    options.device = device;
    options.memory_budgets = std::move(budgets);
    return require(Engine::open(options));
  }
  static Request request() {
    Request out;
    out.prompt = "a green square moves to the left on a white background with a high tone";
    out.steps = 3;
    out.seed = 11;
    return out;
  }
  std::vector<float> latents(Engine& engine, const Request& wanted) const {
    OutputOptions output;
    output.video = folder_.path() / "out.mp4";
    output.latents = folder_.path() / "out.latents.safetensors";
    const auto artifact = engine.generate(wanted, output);
    EXPECT_TRUE(artifact.ok()) << artifact.error().text();
    if (!artifact.ok()) return {};
    std::vector<float> out = require(require(Checkpoint::open(output.latents)).read_f32("video"));
    const auto audio = require(require(Checkpoint::open(output.latents)).read_f32("audio"));
    out.insert(out.end(), audio.begin(), audio.end());
    return out;
  }
  test::TempFolder folder_;
};

TEST_F(PlacedStages, EveryPlacementGivesTheSameLatents) {
  const auto want = latents(*open("CPU"), request());
  for (const char* device : {"text=CPU#2,dit=CPU", "dit=CPU*60+CPU#2*40", "text=CPU#3,dit=CPU*1+CPU#2*1+CPU#3*1,vae=CPU#2", "CPU+CPU#2"})
    EXPECT_EQ(latents(*open(device), request()), want) << device;
}

TEST_F(PlacedStages, ThePlanSaysWhereBlocksRun) {
  const Plan plan = require(open("text=CPU#2,dit=CPU*60+CPU#2*40")->plan(request()));
  for (const StagePlan& stage : plan.stages) {
    if (stage.name == "text") { EXPECT_EQ(stage.device, "CPU#2"); }
    if (stage.name != "denoise") continue;
    ASSERT_EQ(stage.shares.size(), 2u);
    EXPECT_EQ(stage.shares[0].blocks, 3);
    EXPECT_EQ(stage.shares[1].blocks, 2);
  }
}

TEST_F(PlacedStages, StagesThatAreNotNamedStayWhereTheRestIs) {
  const Plan plan = require(open("CPU,dit=CPU#2")->plan(request()));
  for (const StagePlan& stage : plan.stages) EXPECT_EQ(stage.device, stage.name == "denoise" ? "CPU#2" : "CPU") << stage.name;
}

TEST_F(PlacedStages, AdaptersGoWithTheirLayers) {
  test::LoraMaker maker;
  maker.targets = dit_lora_targets(require(open_model(demo::folder())).dit_config);
  maker.size = 0.05f;
  maker.write(folder_.path() / "a.safetensors", test::LoraStyle::comfy);
  Request with = request();
  with.loras = {{folder_.path() / "a.safetensors", 0.7}};
  const auto whole = open("CPU"), split = open("dit=CPU*60+CPU#2*40");
  const auto base = latents(*whole, request());
  EXPECT_EQ(latents(*split, with), latents(*whole, with));
  EXPECT_EQ(latents(*split, request()), base) << "taken off again";
}

// Several at a time on one engine: the same files as one after the other.
TEST_F(PlacedStages, RequestsBesideEachOtherGiveTheSameLatents) {
  constexpr int kRequests = 4;
  const auto wanted = [](int i) {
    Request out = request();
    out.seed = 20 + static_cast<std::uint64_t>(i);
    out.prompt += i % 2 == 0 ? "" : " and a beep";
    return out;
  };
  const auto file = [this](int i, const char* kind) { return folder_.path() / (std::to_string(i) + kind); };
  const auto single = open("CPU");
  for (const char* device : {"text=CPU#2,dit=CPU,vae=CPU#3", "dit=CPU*1+CPU#2*1,text=CPU#3", "CPU"}) {
    const auto engine = open(device);
    std::vector<std::thread> threads;
    for (int i = 0; i < kRequests; ++i)
      threads.emplace_back([&, i] {
        OutputOptions output;
        output.video = file(i, ".mp4");
        output.latents = file(i, ".safetensors");
        const auto artifact = engine->generate(wanted(i), output);
        EXPECT_TRUE(artifact.ok()) << artifact.error().text();
      });
    for (std::thread& thread : threads) thread.join();
    for (int i = 0; i < kRequests; ++i) {
      const auto video = require(require(Checkpoint::open(file(i, ".safetensors"))).read_f32("video"));
      const auto want = latents(*single, wanted(i));
      EXPECT_TRUE(std::equal(video.begin(), video.end(), want.begin())) << device << ", request " << i;
    }
  }
}

TEST_F(PlacedStages, ADeviceThatDoesNotExistIsNamed) {
  EngineOptions options;
  options.model = demo::folder();
  options.device = "text=CPU,dit=GPU77";
  const auto engine = Engine::open(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::device);
  EXPECT_NE(engine.error().text().find("GPU77"), std::string::npos);
}

TEST_F(PlacedStages, ABudgetOfADeviceThatIsNotUsedIsRefused) {
  const auto plan = open("CPU", {"GPU5=3"})->plan(request());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::usage);
  EXPECT_NE(plan.error().text().find("gpu5"), std::string::npos);
}

}  // namespace
}  // namespace tritium
