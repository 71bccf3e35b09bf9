// The demonstration model within memory budgets, through the engine: parts take turns, blocks are streamed, results stay the same.
#include "e2e/demo_stages.h"
#include "support/build.h"
#include "support/lora_maker.h"
#include "unit/temp_folder.h"

#include "base/system.h"
#include "model/dit/lora.h"
#include "pipeline/synth_model.h"

#include <tritium/engine.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>

namespace tritium {
namespace {

namespace fs = std::filesystem;
using demo::require;

struct Outcome {
  std::vector<float> video, audio;
};

Request request(std::uint64_t seed = 7) {
  Request out;
  out.prompt = "a red circle moves to the right on a blue background with a low tone";
  out.steps = 2;
  out.seed = seed;
  return out;
}

std::unique_ptr<Engine> open(std::uint64_t budget) {
  EngineOptions options;
  options.model = demo::folder();
  if (budget > 0) options.memory_budgets = {fmt::format("CPU={:.9f}", static_cast<double>(budget) / (1 << 30))};
  return require(Engine::open(options));
}

class Budget : public ::testing::Test {
 protected:
  Outcome generate(Engine& engine, const Request& wanted, std::vector<std::string>* stages = nullptr) {
    OutputOptions output;
    output.video = folder_.path() / "out.mp4";
    output.latents = folder_.path() / "out.latents.safetensors";
    const auto text_steps = [&](const Progress& p) {
      if (stages != nullptr && p.step > 0) stages->push_back(p.stage);
    };
    const auto artifact = engine.generate(wanted, output, text_steps);
    EXPECT_TRUE(artifact.ok()) << artifact.error().text();
    if (!artifact.ok()) return {};
    const Checkpoint file = require(Checkpoint::open(output.latents));
    return {require(file.read_f32("video")), require(file.read_f32("audio"))};
  }
  test::TempFolder folder_;
};

TEST_F(Budget, EveryBudgetGivesTheSameLatents) {
  const auto free = open(0);
  const Plan plan = require(free->plan(request()));
  const Outcome want = generate(*free, request()), other = generate(*free, request(8));
  EXPECT_NE(want.video, other.video);
  std::uint64_t weights = 0;
  for (const StagePlan& stage : plan.stages) weights += stage.weight_bytes;
  const std::uint64_t beside = plan.peak_bytes - weights;
  // From everything down to what the largest part cannot do without.
  int ran = 0;
  for (const double share : {1.0, 0.8, 0.6, 0.5, 0.4, 0.3}) {
    SCOPED_TRACE(share);
    const auto engine = open(beside + static_cast<std::uint64_t>(share * static_cast<double>(weights)));
    const Outcome got = generate(*engine, request());
    EXPECT_EQ(got.video, want.video);
    EXPECT_EQ(got.audio, want.audio);
    const Outcome again = generate(*engine, request(8));
    EXPECT_EQ(again.video, other.video);
    ran += got.video == want.video;
  }
  EXPECT_EQ(ran, 6);
}

// A transformer larger than everything else together, so that there is a budget in which its blocks have to be streamed.
TEST_F(Budget, ATransformerThatDoesNotFitIsStreamedThroughTheEngine) {
  SynthModelOptions synthetic;
  synthetic.preset = "demo";
  synthetic.demo = demo::folder();
  synthetic.parts = {PartKind::dit};
  synthetic.format = *target_format("bf16");
  synthetic.set = {{"dit.num_layers", "40"}};
  const auto files = require(write_synthetic_model(folder_.path() / "deep", synthetic));
  Request wanted = request();
  wanted.width = wanted.height = 96;
  wanted.frames = 22;
  const auto within = [&](std::uint64_t bytes) {
    EngineOptions options;
    options.model = demo::folder();
    options.dit = files.front().path;
    if (bytes > 0) options.memory_budgets = {fmt::format("CPU={:.9f}", static_cast<double>(bytes) / (1 << 30))};
    return require(Engine::open(options));
  };
  const auto denoise = [](const Plan& plan) {
    return *std::find_if(plan.stages.begin(), plan.stages.end(), [](const StagePlan& s) { return s.name == "denoise"; });
  };
  const auto free = within(0);
  const StagePlan whole = denoise(require(free->plan(wanted)));
  const Outcome want = generate(*free, wanted);
  ASSERT_EQ(whole.transfer_bytes, 0u);
  for (const double share : {0.5, 0.8}) {  // below, the video decoder and encoder do not fit
    SCOPED_TRACE(share);
    const std::uint64_t budget =
        whole.host_bytes + whole.working_bytes + static_cast<std::uint64_t>(share * static_cast<double>(whole.weight_bytes));
    const auto engine = within(budget);
    const Plan plan = require(engine->plan(wanted));
    EXPECT_GT(denoise(plan).transfer_bytes, 0u) << "blocks are streamed";
    EXPECT_LE(plan.peak_bytes, budget);
    const Outcome got = generate(*engine, wanted);
    EXPECT_EQ(got.video, want.video);
    EXPECT_EQ(got.audio, want.audio);
  }
}

TEST_F(Budget, TooLittleIsRefusedWithNeedAndHave) {
  OutputOptions output;
  output.video = folder_.path() / "out.mp4";
  const auto artifact = open(1 << 20)->generate(request(), output);
  ASSERT_FALSE(artifact.ok());
  EXPECT_EQ(artifact.error().code, ErrorCode::does_not_fit);
  EXPECT_FALSE(fs::exists(output.video));
}

// Fifty requests: other prompts, seeds and lengths, the cache of text rows full.
TEST_F(Budget, MemoryStaysFlat) {
  if (test::sanitizer_holds_memory()) GTEST_SKIP() << "the sanitizer keeps freed memory";
  for (const std::uint64_t budget : {std::uint64_t{0}, std::uint64_t{168} << 20}) {
    const auto engine = open(budget);
    // The most between two requests, early and late: threads of the video encoder take and give back a little.
    std::uint64_t early = 0, late = 0;
    for (int i = 0; i < 50; ++i) {
      Request wanted = request(static_cast<std::uint64_t>(i));
      wanted.steps = 1;
      wanted.prompt += " " + std::to_string(i % 5);
      generate(*engine, wanted);
      if (i >= 4) (i < 27 ? early : late) = std::max(i < 27 ? early : late, own_anonymous_bytes());
    }
    constexpr double kThreads = 4 << 20;  // what one may keep for its next allocation
    EXPECT_LE(static_cast<double>(late), 1.01 * static_cast<double>(early) + kThreads) << budget;
    std::printf("within %llu: at most %s up to the 27th request, %s up to the 50th\n", static_cast<unsigned long long>(budget),
                format_bytes(early).c_str(), format_bytes(late).c_str());
  }
}

TEST_F(Budget, AKnownPromptRunsNoEncoder) {
  const auto engine = open(0);
  std::vector<std::string> first, second, changed;
  generate(*engine, request(), &first);
  generate(*engine, request(8), &second);
  Request other = request();
  other.prompt = "a green square on a white background with a high tone";
  generate(*engine, other, &changed);
  const auto encoded = [](const std::vector<std::string>& stages) { return std::count(stages.begin(), stages.end(), "text"); };
  EXPECT_GT(encoded(first), 0);
  EXPECT_EQ(encoded(second), 0);
  EXPECT_GT(encoded(changed), 0);
}

TEST_F(Budget, AdaptersSurviveTheTransformerLeavingAndComingBack) {
  test::LoraMaker maker;
  maker.targets = dit_lora_targets(require(open_model(demo::folder())).dit_config);
  maker.size = 0.05f;
  maker.write(folder_.path() / "a.safetensors", test::LoraStyle::comfy);
  Request with = request();
  with.loras = {{folder_.path() / "a.safetensors", 0.7}};
  const auto free = open(0);
  const Plan plan = require(free->plan(with));
  const Outcome want = generate(*free, with), base = generate(*free, request());
  std::uint64_t weights = 0;
  for (const StagePlan& stage : plan.stages) weights += stage.weight_bytes;
  const auto engine = open(plan.peak_bytes - weights / 2);
  EXPECT_EQ(generate(*engine, with).video, want.video);
  EXPECT_EQ(generate(*engine, request()).video, base.video);
  Request other = with;
  other.prompt = "a green square";
  generate(*engine, other);
  EXPECT_EQ(generate(*engine, with).video, want.video);
}

}  // namespace
}  // namespace tritium
