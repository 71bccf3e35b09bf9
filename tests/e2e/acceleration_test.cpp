// Accelerations with the demonstration model: accepted clips that say how they were made, the same bits every time and everywhere.
#include "base/files.h"
#include "e2e/demo_stages.h"
#include "unit/temp_folder.h"

#include <tritium/engine.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <cmath>
#include <map>

namespace tritium {
namespace {

namespace fs = std::filesystem;
using demo::require;

constexpr int kSteps = 12;

Acceleration reused_velocities() {
  Acceleration out;
  out.reuse_velocity = 3;
  return out;
}
Acceleration reused_cores() {
  Acceleration out;
  out.reuse_core = 3;
  return out;
}
Acceleration cached() {
  Acceleration out;
  out.easycache = 0.2;
  return out;
}
Acceleration thinned() {
  Acceleration out;
  out.blocks = 4;
  return out;
}
Acceleration thinned_and_reused() {
  Acceleration out = reused_cores();
  out.blocks = 3;
  return out;
}
const std::map<std::string, Acceleration> kAll = {{"velocities", reused_velocities()},
                                                  {"cores", reused_cores()},
                                                  {"easycache", cached()},
                                                  {"blocks", thinned()},
                                                  {"blocks and cores", thinned_and_reused()}};

class Accelerations : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { engine_ = open("CPU").release(); }
  static void TearDownTestSuite() { delete engine_; }
  static std::unique_ptr<Engine> open(const std::string& device) {
    EngineOptions options;
    options.model = demo::folder();
    options.device = device;
    return require(Engine::open(options));
  }
  static Request request(const Acceleration& acceleration = {}) {
    Request out;
    out.prompt = "a green square moves to the left on a white background with a high tone";
    out.steps = kSteps;
    out.seed = 11;
    out.acceleration = acceleration;
    return out;
  }

  struct Outcome {
    std::vector<float> latents;
    Plan plan;
    nlohmann::json sidecar;
  };
  Outcome run(Engine& engine, const Request& wanted) const {
    OutputOptions output;
    output.video = folder_.path() / "out.mp4";
    output.latents = folder_.path() / "out.latents.safetensors";
    const auto artifact = engine.generate(wanted, output);  // an error when the guards refuse the clip
    EXPECT_TRUE(artifact.ok()) << artifact.error().text();
    if (!artifact.ok()) return {};
    Outcome out{require(require(Checkpoint::open(output.latents)).read_f32("video")), artifact->plan,
                nlohmann::json::parse(require(read_file(artifact->sidecar)))};
    const auto audio = require(require(Checkpoint::open(output.latents)).read_f32("audio"));
    out.latents.insert(out.latents.end(), audio.begin(), audio.end());
    return out;
  }
  Outcome run(const Request& wanted) const { return run(*engine_, wanted); }

  test::TempFolder folder_;
  static inline Engine* engine_ = nullptr;
};

TEST_F(Accelerations, AreOffUnlessTheyChangeSomething) {
  const Outcome plain = run(request());
  Acceleration nothing;
  nothing.blocks = 5;  // all there are
  const Outcome off = run(request(nothing));
  EXPECT_EQ(off.latents, plain.latents);
  EXPECT_FALSE(off.sidecar["plan"].contains("acceleration"));
  EXPECT_FALSE(plain.sidecar["request"].contains("acceleration"));
  EXPECT_EQ(plain.plan.computed_evaluations, kSteps);
}

TEST_F(Accelerations, GiveAcceptedClipsThatSayHowTheyWereMadeAndTheSameOnesAgain) {
  const Outcome plain = run(request());
  for (const auto& [name, acceleration] : kAll) {
    SCOPED_TRACE(name);
    const Outcome first = run(request(acceleration));
    EXPECT_NE(first.latents, plain.latents);
    EXPECT_EQ(run(request()).latents, plain.latents) << "nothing is left of it";
    EXPECT_EQ(run(request(acceleration)).latents, first.latents);
    const auto& said = first.sidecar["plan"]["acceleration"];
    EXPECT_EQ(first.sidecar["request"]["acceleration"].value("blocks", 0), acceleration.blocks.value_or(0));
    const int computed = said.at("computed_evaluations").get<int>();
    if (acceleration.easycache)
      EXPECT_LT(computed, kSteps);
    else
      EXPECT_EQ(computed, acceleration.reuse_core > 1 || acceleration.reuse_velocity > 1 ? 5 : kSteps);
    EXPECT_LE(computed, said.at("evaluations").get<int>());
  }
}

TEST_F(Accelerations, AModelSplitOverDevicesGivesTheSame) {
  const auto split = open("dit=CPU*60+CPU#2*40");
  for (const auto& [name, acceleration] : kAll)
    EXPECT_EQ(run(*split, request(acceleration)).latents, run(request(acceleration)).latents) << name;
}

TEST_F(Accelerations, BlocksThatAreLeftOutAreNotReadEither) {
  demo::Stages demo("CPU");
  const Plan all = demo.plan(request()), some = demo.plan(request(thinned_and_reused()));
  const Conditioning conditioning = demo.encode(request().prompt);
  const Latents noise = require(initial_noise(all));
  const std::uint64_t whole = require(dit_weight_bytes(*demo.model.dit, demo.model.dit_config, demo.policy(demo.weights.dit.precision)));
  std::uint64_t read[2] = {0, 0};
  for (const int k : {0, 1}) {
    const Plan& plan = k == 0 ? all : some;
    const auto streamed = require(Dit::load(*demo.device, demo.model.dit, demo.model.dit_config, demo.policy(demo.weights.dit.precision),
                                            nullptr, {}, PartBudget{whole * 6 / 10}));
    ASSERT_TRUE(streamed->streamed());
    const DenoiseState got = require(denoise(*streamed, plan, conditioning, noise, nullptr, {}));
    EXPECT_EQ(got.latents.video, require(denoise(*demo.dit, plan, conditioning, noise, nullptr, {})).latents.video);
    read[k] = streamed->weights().shards.front().block_store->facts().bytes_read;
  }
  // 3 blocks of 5 in 5 passes of 12, and one is kept.
  EXPECT_LT(static_cast<double>(read[1]), 0.3 * static_cast<double>(read[0]));
}

TEST_F(Accelerations, WorkWithARetakeAndWithSoundForAVideo) {
  OutputOptions source;
  source.video = folder_.path() / "source.mp4";
  Request first = request();
  first.frames = 39;
  first.steps = 4;
  ASSERT_TRUE(engine_->generate(first, source).ok());
  const auto retake = [&](const Acceleration& acceleration) {
    Request out = request(acceleration);
    out.retake.video = source.video;
    out.retake.frames = {{0, 17}};
    return run(out);
  };
  const Outcome plain = retake({});
  const VideoLatentShape shape = video_shape(plain.plan);
  ASSERT_EQ(shape.frames, 12);
  const std::size_t frame = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  for (const Acceleration& each : {reused_velocities(), thinned_and_reused(), cached()}) {
    const Outcome got = retake(each);
    for (std::size_t c = 0; c < static_cast<std::size_t>(shape.channels); ++c)
      for (std::size_t f = 5; f < 12; ++f)
        ASSERT_EQ(got.latents[(c * 12 + f) * frame], plain.latents[(c * 12 + f) * frame]) << "what is kept ends on the given clip";
    EXPECT_NE(got.latents, plain.latents);
  }
  Request sound = request(cached());
  sound.sound_for = source.video;
  EXPECT_LT(run(sound).plan.computed_evaluations.value_or(kSteps), kSteps) << "the kept stream does not count";
}

TEST_F(Accelerations, DraftPicturesAreAlmostThoseOfTheClip) {
  demo::Stages demo("CPU");
  Request wanted = request();
  wanted.width = 480;
  wanted.height = 32;
  wanted.frames = 39;
  wanted.steps = 4;
  const Plan full = demo.plan(wanted);
  wanted.acceleration.draft = true;
  const Plan draft = demo.plan(wanted);
  const auto flops = [](const Plan& plan, const char* stage) {
    for (const StagePlan& each : plan.stages)
      if (each.name == stage) return each.flops;
    return 0.0;
  };
  EXPECT_EQ(flops(draft, "denoise"), flops(full, "denoise"));
  EXPECT_LT(flops(draft, "video"), 0.65 * flops(full, "video"));
  const DenoiseState done = require(denoise(*demo.dit, full, demo.encode(wanted.prompt), require(initial_noise(full)), nullptr, {}));
  const Clip want = demo.decode(full, done.latents), have = demo.decode(draft, done.latents);
  ASSERT_EQ(have.frames, want.frames);
  ASSERT_EQ(have.rgb.size(), want.rgb.size());
  EXPECT_NE(have.rgb, want.rgb);
  double sum = 0;
  for (std::size_t i = 0; i < want.rgb.size(); ++i) sum += std::pow(static_cast<double>(want.rgb[i]) - static_cast<double>(have.rgb[i]), 2);
  EXPECT_LT(std::sqrt(sum / static_cast<double>(want.rgb.size())), 6) << "of 255";
}

}  // namespace
}  // namespace tritium
