// LoRAs on the demonstration model, through the engine.
#include "model/dit/lora.h"
#include "e2e/demo_stages.h"
#include "support/golden.h"
#include "support/lora_maker.h"
#include "unit/temp_folder.h"
#include "weights/lora/contract.h"

#include <tritium/engine.h>

#include "base/files.h"

#include <gtest/gtest.h>
#include <limits>

namespace tritium {
namespace {

namespace fs = std::filesystem;
using demo::require;
using test::LoraMaker;
using test::LoraStyle;

constexpr int kSteps = 2;

class DemoLora : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    EngineOptions options;
    options.model = demo::folder();
    engine_ = require(Engine::open(options)).release();
    config_ = require(open_model(demo::folder())).dit_config;
  }
  static void TearDownTestSuite() { delete engine_; }

  [[nodiscard]] static LoraMaker maker() {
    LoraMaker out;
    out.targets = dit_lora_targets(config_);
    out.rank = 4;
    out.size = 0.05f;
    return out;
  }
  [[nodiscard]] fs::path lora(const std::string& name, LoraStyle style, const LoraMaker& made = maker()) const {
    made.write(folder_.path() / name, style);
    return folder_.path() / name;
  }
  [[nodiscard]] static Request request() {
    Request out;
    out.prompt = "a red circle moves to the right on a blue background with a low tone";
    out.steps = kSteps;
    out.seed = 7;
    return out;
  }

  struct Outcome {
    std::vector<float> video, audio;
    Plan plan;
    nlohmann::json sidecar;
  };
  [[nodiscard]] Outcome generate(const Request& wanted, const std::string& name = "out") const {
    const fs::path latents = folder_.path() / (name + ".latents.safetensors");
    OutputOptions output;
    output.video = folder_.path() / (name + ".mp4");
    output.latents = latents;
    const auto artifact = engine_->generate(wanted, output);
    // Two steps and random adapters may well give a picture that the guards refuse; the latents count here.
    EXPECT_TRUE(artifact.ok()) << artifact.error().text();
    if (!artifact.ok()) return {};
    const Checkpoint file = require(Checkpoint::open(latents));
    return {require(file.read_f32("video")), require(file.read_f32("audio")), artifact->plan,
            nlohmann::json::parse(require(read_file(artifact->sidecar)))};
  }
  [[nodiscard]] static Error refusal(const Request& wanted) {
    const auto plan = engine_->plan(wanted);
    EXPECT_FALSE(plan.ok());
    return plan.ok() ? Error{} : plan.error();
  }

  static Engine* engine_;
  static DitConfig config_;
  test::TempFolder folder_;
};
Engine* DemoLora::engine_ = nullptr;
DitConfig DemoLora::config_;

// B11
TEST_F(DemoLora, B9_B11_EveryDialectGivesTheSameLatents) {
  const Outcome base = generate(request());
  std::optional<Outcome> first;
  for (const LoraStyle style : test::kLoraStyles) {
    Request with = request();
    with.loras = {{lora("a.safetensors", style), 0.7}};
    const Outcome out = generate(with);
    if (!first) first = out;
    golden::expect_within(std::string("demo lora ") + test::style_name(style),
                          std::max(golden::max_abs_diff(out.video, first->video), golden::max_abs_diff(out.audio, first->audio)), 1e-6);
  }
  EXPECT_GT(golden::max_abs_diff(first->video, base.video), 1e-3);
  // Strength 0, and the same engine without a LoRA afterwards: the base bit for bit.
  Request zero = request();
  zero.loras = {{lora("a.safetensors", LoraStyle::bare), 0.0}};
  EXPECT_EQ(generate(zero).video, base.video);
  const Outcome after = generate(request());
  EXPECT_EQ(after.video, base.video);
  EXPECT_EQ(after.audio, base.audio);
}

TEST_F(DemoLora, TheReportIsInPlanAndMetadata) {
  Request with = request();
  with.loras = {{lora("style.safetensors", LoraStyle::comfy), 0.5}, {lora("other.safetensors", LoraStyle::kohya), 0.25, 2.0}};
  const Outcome out = generate(with);
  ASSERT_EQ(out.plan.loras.size(), 2u);
  const LoraPlan& first = out.plan.loras.front();
  EXPECT_EQ(first.matched, static_cast<std::int64_t>(maker().targets.size()));
  EXPECT_EQ(first.pairs, first.matched);
  EXPECT_FALSE(first.scales.empty());
  EXPECT_EQ(first.scales.front(), 0.5);
  EXPECT_EQ(out.plan.loras[1].scales, (std::vector<double>{0.25 * 2.0 / 4}));
  ASSERT_EQ(out.plan.notes.size(), 2u);
  EXPECT_NE(out.plan.notes[0].find("style.safetensors"), std::string::npos) << out.plan.notes[0];
  const auto& stored = out.sidecar["plan"]["loras"];
  ASSERT_EQ(stored.size(), 2u);
  EXPECT_EQ(stored[0]["header_sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(stored[0]["matched"], stored[0]["pairs"]);
  EXPECT_EQ(stored[1]["strength"], 0.25);
  EXPECT_EQ(out.sidecar["request"]["loras"][1]["alpha"], 2.0);
  // Their memory is planned for.
  EXPECT_EQ(out.plan.stages[1].weight_bytes - require(engine_->plan(request())).stages[1].weight_bytes,
            out.plan.loras[0].bytes + out.plan.loras[1].bytes);
}

TEST_F(DemoLora, ContractsSetWhatIsLeftOpenAndRefuseTheRest) {
  LoraMaker made = maker();
  made.metadata = {{kContractKey, contract_json({"a test's turbo", 3, 2, 3, 6, 2, 4.0, "fl2va", false})}};
  Request with = request();
  with.steps.reset();
  with.loras = {{lora("mine.safetensors", LoraStyle::bare, made)}};
  const Plan plan = require(engine_->plan(with));
  EXPECT_EQ(plan.steps, 3);
  EXPECT_EQ(plan.video_shift, 6);
  EXPECT_EQ(plan.audio_shift, 2);
  std::vector<std::string> changed;
  for (const Adjustment& a : plan.adjustments) {
    changed.push_back(a.field);
    EXPECT_NE(a.reason.find("mine.safetensors"), std::string::npos) << a.reason;
  }
  EXPECT_EQ(changed, (std::vector<std::string>{"steps", "video_shift", "audio_shift"}));
  EXPECT_EQ(plan.loras.front().made_for, "a test's turbo");

  Request contradicting = with;
  contradicting.steps = 20;
  EXPECT_EQ(refusal(contradicting).field, "steps");
  EXPECT_EQ(refusal(contradicting).code, ErrorCode::usage);
  contradicting.force = true;
  EXPECT_EQ(require(engine_->plan(contradicting)).steps, 20);
  contradicting = with;
  contradicting.loras.front().alpha = 1;
  EXPECT_EQ(refusal(contradicting).field, "lora_alpha");

  made.metadata = {{kContractKey, contract_json({"another", 8, 8, 8, 12, 3, std::nullopt, "", false})}};
  Request both = with;
  both.loras.push_back({lora("second.safetensors", LoraStyle::bare, made)});
  EXPECT_NE(refusal(both).message.find("second.safetensors"), std::string::npos);
  made.metadata = {{kContractKey, contract_json({"for references", 3, 3, 3, 6, 2, std::nullopt, "ref2va", false})}};
  Request other = with;
  other.loras = {{lora("third.safetensors", LoraStyle::bare, made)}};
  EXPECT_NE(refusal(other).message.find("ref2va"), std::string::npos);
  other.force = true;
  EXPECT_TRUE(engine_->plan(other).ok());
  // Without a contract the name is what there is to go by.
  Request named = with;
  named.loras = {{lora("style_ref2va.safetensors", LoraStyle::bare)}};
  EXPECT_NE(refusal(named).message.find("Ref2VA"), std::string::npos);
}

TEST_F(DemoLora, PairsThatAreNotFiniteAreSaidByPlanAndGenerate) {
  auto tensors = maker().make(LoraStyle::bare);
  const std::string key = "blocks.0.mlp.fc2.lora_A.weight";
  tensors.at(key).values[3] = std::numeric_limits<float>::quiet_NaN();
  LoraMaker::write(folder_.path() / "nan.safetensors", tensors);
  Request with = request();
  with.loras = {{folder_.path() / "nan.safetensors"}};
  for (const Plan& plan : {require(engine_->plan(with)), generate(with).plan, generate(with, "again").plan}) {
    ASSERT_EQ(plan.loras.size(), 1u);
    EXPECT_EQ(plan.loras.front().matched, plan.loras.front().pairs - 1);
    ASSERT_EQ(plan.warnings.size(), 1u);
    EXPECT_NE(plan.warnings.front().find(key), std::string::npos) << plan.warnings.front();
    EXPECT_NE(plan.warnings.front().find("not finite"), std::string::npos) << plan.warnings.front();
  }
}

TEST_F(DemoLora, WhatCannotBeUsedIsRefusedBeforeAnythingIsLoaded) {
  Request with = request();
  with.loras = {{folder_.path() / "missing.safetensors"}};
  EXPECT_EQ(refusal(with).field, "lora");
  EXPECT_NE(refusal(with).message.find("missing.safetensors"), std::string::npos);
  LoraMaker other;
  other.targets = {{"layers.0.mlp", 4, 4, LoraTarget::Rows::plain, 0, 0, false}};
  with.loras = {{lora("foreign.safetensors", LoraStyle::comfy, other)}};
  EXPECT_EQ(refusal(with).code, ErrorCode::model);
  EXPECT_NE(refusal(with).message.find("layers.0.mlp"), std::string::npos);
  const fs::path twice = lora("twice.safetensors", LoraStyle::bare);
  with.loras = {{twice}, {twice}};
  EXPECT_NE(refusal(with).message.find("twice"), std::string::npos);
}

}  // namespace
}  // namespace tritium
