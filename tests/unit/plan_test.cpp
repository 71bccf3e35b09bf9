// From a request to a plan: what is decided, what is changed and said, what follows, and what does not fit.
#include "unit/demo_plan.h"

#include "base/system.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace tritium {
namespace {

class MakePlan : public test::DemoPlan {};

TEST_F(MakePlan, TheModelsOwnDefaultsFillWhatIsLeftOut) {
  const Plan plan = this->plan();
  EXPECT_EQ(plan.prompt, request.prompt);
  EXPECT_EQ(plan.width, in.defaults.width);
  EXPECT_EQ(plan.height, in.defaults.height);
  EXPECT_EQ(plan.frames, in.defaults.frames);
  EXPECT_EQ(plan.steps, in.defaults.steps);
  EXPECT_EQ(plan.video_shift, in.defaults.video_shift);
  EXPECT_EQ(plan.audio_shift, in.defaults.audio_shift);
  EXPECT_EQ(plan.noise, "diffsynth");
  EXPECT_EQ(plan.seed, 7u);
  EXPECT_TRUE(plan.adjustments.empty());
  EXPECT_TRUE(plan.warnings.empty());
}

// Every count is raised to the next 17n+5, and told so exactly when it was changed.
TEST_F(MakePlan, A27_EveryNumberOfFramesIsRaisedToTheGrid) {
  for (int asked = 1; asked <= 400; ++asked) {
    request.frames = asked;
    const Plan plan = this->plan();
    ASSERT_EQ((plan.frames - 5) % 17, 0) << asked;
    ASSERT_GE(plan.frames, asked);
    ASSERT_LT(plan.frames, std::max(asked, 5) + 17) << asked;
    ASSERT_TRUE(asked < 5 || plan.frames - asked < 17);
    ASSERT_EQ(plan.latent_frames, (plan.frames - 5) / 17 * 5 + 2) << asked;
    ASSERT_EQ(plan.audio_latents, static_cast<int>(std::nearbyint(plan.frames / 24.0 * 40.0))) << asked;
    ASSERT_EQ(plan.adjustments.size(), plan.frames == asked ? 0u : 1u) << asked;
    if (plan.adjustments.empty()) continue;
    ASSERT_EQ(plan.adjustments[0].field, "frames");
    ASSERT_EQ(plan.adjustments[0].from, std::to_string(asked));
    ASSERT_EQ(plan.adjustments[0].to, std::to_string(plan.frames));
    ASSERT_NE(plan.adjustments[0].reason.find("17n+5"), std::string::npos);
  }
}

TEST_F(MakePlan, A27_SecondsTooAndFifteenOfThemAre362Frames) {
  for (int seconds = 4; seconds <= 15; ++seconds) {
    request.seconds = seconds;
    const Plan plan = this->plan();
    EXPECT_EQ((plan.frames - 5) % 17, 0) << seconds;
    EXPECT_GE(plan.frames, seconds * 24);
    EXPECT_LT(plan.frames, seconds * 24 + 17);
    EXPECT_EQ(plan.adjustments.size(), plan.frames == seconds * 24 ? 0u : 1u) << seconds;
  }
  EXPECT_EQ(plan().frames, 362);
}

TEST_F(MakePlan, A29_FramesFollowThisModelsRule) {
  for (const auto& [asked, frames] : {std::pair(34, 39), std::pair(124, 124), std::pair(168, 175)}) {
    request.frames = asked;
    EXPECT_EQ(plan().frames, frames);
  }
}

// A length that a plan printed gives the same plan again.
TEST_F(MakePlan, ItsOwnSecondsAreALengthOnTheGrid) {
  for (const int frames : {5, 22, 39, 124, 362, 3609}) {
    request.seconds = frames / 24.0;
    const Plan plan = this->plan();
    EXPECT_EQ(plan.frames, frames);
    EXPECT_TRUE(plan.adjustments.empty()) << frames;
  }
}

TEST_F(MakePlan, A32_SizesAreKeptOrRaisedToTheNextMultipleOf32) {
  for (int side = 1; side <= 300; ++side) {
    request.width = side;
    request.height = 301 - side;
    const Plan plan = this->plan();
    ASSERT_EQ(plan.width % 32, 0);
    ASSERT_EQ(plan.height % 32, 0);
    ASSERT_TRUE(plan.width >= side && plan.width < side + 32) << side;
    ASSERT_TRUE(plan.height >= 301 - side && plan.height < 301 - side + 32) << side;
    ASSERT_EQ(plan.adjustments.size(), (plan.width != side ? 1u : 0u) + (plan.height != 301 - side ? 1u : 0u)) << side;
    ASSERT_EQ(plan.latent_width, plan.width / 16);
    ASSERT_EQ(plan.latent_height, plan.height / 16);
  }
}

TEST_F(MakePlan, ShapesFollowFromTheDecidedValues) {
  request.width = 160;
  request.height = 64;
  request.frames = 39;
  request.steps = 8;
  const Plan plan = this->plan();
  EXPECT_EQ(plan.text_tokens, in.text_tokens);
  EXPECT_EQ(plan.latent_channels, in.dit.video_features / 4);
  EXPECT_EQ(plan.audio_dim, in.dit.audio_features);
  EXPECT_EQ(plan.rows, in.text_tokens + 2 * plan.audio_latents + plan.latent_frames * (plan.latent_height / 2) * (plan.latent_width / 2));
  EXPECT_EQ(plan.samples, plan.audio_latents * in.audio_vae.samples_per_latent());
  EXPECT_DOUBLE_EQ(plan.seconds(), 39 / 24.0);
  for (const auto* sigmas : {&plan.video_sigmas, &plan.audio_sigmas}) {
    ASSERT_EQ(sigmas->size(), 9u);
    EXPECT_EQ(sigmas->front(), 1);
    EXPECT_EQ(sigmas->back(), 0);
    EXPECT_TRUE(std::is_sorted(sigmas->rbegin(), sigmas->rend()));
  }
}

TEST_F(MakePlan, ASeedIsDrawnOnlyWhenAbsentAndItsHighBitsAreWarnedOf) {
  request.seed.reset();
  EXPECT_EQ(plan().seed, 99u);
  request.seed = 0;
  EXPECT_EQ(plan().seed, 0u);
  request.seed = 0xFFFFFFFFu;
  EXPECT_TRUE(plan().warnings.empty());
  request.seed = (std::uint64_t{1} << 32) + 5;
  const Plan plan = this->plan();
  EXPECT_EQ(plan.seed, (std::uint64_t{1} << 32) + 5);
  ASSERT_EQ(plan.warnings.size(), 1u);
  EXPECT_EQ(plan.warnings[0], "seed 4294967301: only the low 32 bits count (5)");
}

TEST_F(MakePlan, WhatTheModelWasNotTrainedOnIsWarnedOf) {
  request.frames = 39;
  request.width = 128;
  const auto warnings = plan().warnings;
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0], "frames 39: the model was trained on 22");
  EXPECT_EQ(warnings[1], "width 128: the model was trained on 96");
  in.defaults.trained_frames = {22, 39};
  in.defaults.trained_width = {64, 128};
  EXPECT_TRUE(plan().warnings.empty());
}

// The plan adds up weights, the largest stage and the finished clip; what is there is compared with exactly that.
TEST_F(MakePlan, A30_MemoryIsAccountedForAndRefusedWithNumbers) {
  const Plan free = this->plan();
  std::uint64_t weights = 0, working = 0;
  for (const StagePlan& stage : free.stages) {
    weights += stage.weight_bytes;
    working = std::max(working, stage.working_bytes);
    EXPECT_GT(stage.flops, 0) << stage.name;
  }
  EXPECT_EQ(weights, in.text_weights.bytes + in.dit_weights.bytes + in.video_weights.bytes + in.audio_weights.bytes);
  EXPECT_GT(free.peak_bytes, weights + working);

  const auto with = [&](std::uint64_t available) {
    in.available_bytes = available;
    return make_plan(request, in, 0);
  };
  const auto keeps_all = [](const Plan& plan) {
    return std::all_of(plan.stages.begin(), plan.stages.end(), [](const StagePlan& stage) { return stage.stays; });
  };
  EXPECT_TRUE(keeps_all(with(free.peak_bytes).value()));
  const Plan tighter = with(free.peak_bytes - 1).value();
  EXPECT_FALSE(keeps_all(tighter)) << "something has to take turns";
  EXPECT_LT(tighter.peak_bytes, free.peak_bytes);

  const std::uint64_t least = free.peak_bytes - weights;
  const auto refused = with(least);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::does_not_fit);
  for (const std::string& part : {format_bytes(least), std::string("96x96 with 22 frames needs"), std::string("host memory")})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  EXPECT_FALSE(refused.error().hint.empty());
}

TEST_F(MakePlan, MoreOfAnythingNeedsMore) {
  const Plan base = this->plan();
  const auto flops = [](const Plan& plan) {
    double sum = 0;
    for (const StagePlan& stage : plan.stages) sum += stage.flops;
    return sum;
  };
  for (const auto& [frames, width, steps] : {std::tuple(39, 96, 20), {22, 192, 20}, {22, 96, 40}}) {
    request.frames = frames;
    request.width = width;
    request.steps = steps;
    const Plan more = this->plan();
    EXPECT_GT(flops(more), flops(base));
    EXPECT_GE(more.peak_bytes, base.peak_bytes);
    EXPECT_GE(more.output_bytes, base.output_bytes);
  }
}

TEST_F(MakePlan, TheSameInputsGiveTheSamePlan) {
  request.seed.reset();
  EXPECT_EQ(plan_json(plan()), plan_json(plan()));
}

TEST_F(MakePlan, ThePlanIsPrintedWhole) {
  request.width = 100;
  request.prompt = "a \"red\" circle \xff";  // what is no UTF-8 must not keep it from being printed
  const Plan plan = this->plan();
  const auto json = nlohmann::json::parse(plan_json(plan), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json.at("width"), 128);
  EXPECT_EQ(json.at("frames"), plan.frames);
  EXPECT_EQ(json.at("seed"), plan.seed);
  EXPECT_EQ(json.at("rows"), plan.rows);
  EXPECT_EQ(json.at("sigmas").at("video").get<std::vector<float>>(), plan.video_sigmas);
  EXPECT_EQ(json.at("stages").size(), plan.stages.size());
  EXPECT_EQ(json.at("adjustments").at(0).at("to"), "128");
  EXPECT_EQ(json.at("video_latents"), (nlohmann::json{24, plan.latent_frames, plan.latent_height, plan.latent_width}));
  const std::string text = plan_text(plan);
  for (const char* part : {"128x96, 22 frames at 24 fps (0.92 s), 20 steps, seed 7", "9 text tokens", "denoise",
                           "note: width 100 -> 128 (sizes are multiples of 32)", "warning: width 128"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

TEST_F(MakePlan, MatricesAreFloat32UnlessTheyAreLargeOrAskedToBeNarrow) {
  auto model = open_model(std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo");
  ASSERT_TRUE(model.ok());
  const auto wide = stage_weights(*model, "auto"), narrow = stage_weights(*model, "bf16");
  ASSERT_TRUE(wide.ok() && narrow.ok());
  EXPECT_EQ(wide->dit.precision, MatrixPrecision::f32);
  EXPECT_EQ(narrow->dit.precision, MatrixPrecision::bf16);
  EXPECT_LT(narrow->dit.bytes, wide->dit.bytes);
  const auto wrong = stage_weights(*model, "f8");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::usage);
  EXPECT_EQ(wrong.error().field, "compute");
}

// ---- accelerations

double flops_of(const Plan& plan, const char* stage) {
  for (const StagePlan& each : plan.stages)
    if (each.name == stage) return each.flops;
  return 0;
}

TEST_F(MakePlan, AccelerationsAreDecidedAndCosted) {
  const double whole = flops_of(plan(), "denoise");
  EXPECT_EQ(plan().evaluations, 20);
  EXPECT_EQ(plan_text(plan()).find("accelerated"), std::string::npos);
  EXPECT_FALSE(nlohmann::json::parse(plan_json(plan())).contains("acceleration"));
  request.acceleration.reuse_velocity = 3;
  request.acceleration.blocks = 4;
  const Plan reused = plan();
  EXPECT_EQ(reused.evaluations, 8);
  EXPECT_NEAR(flops_of(reused, "denoise") / whole, 0.4 * 0.8, 0.05);
  EXPECT_TRUE(reused.warnings.empty());
  for (const StagePlan& stage : reused.stages)
    if (stage.name == "denoise") { EXPECT_EQ(stage.passes, 8); }
  const auto json = nlohmann::json::parse(plan_json(reused))["acceleration"];
  EXPECT_EQ(json, nlohmann::json::parse(R"({"reuse_velocity": 3, "blocks": 4, "evaluations": 8, "blocks_of_model": 5})"));
  EXPECT_NE(plan_text(reused).find("8 of 20 steps computed"), std::string::npos) << plan_text(reused);
  EXPECT_NE(plan_text(reused).find("4 of 5 blocks"), std::string::npos);
  request.acceleration = {};
  request.acceleration.blocks = 5;
  EXPECT_FALSE(plan().acceleration.any()) << "all blocks";
  request.acceleration = {};
  request.acceleration.easycache = 0.2;
  EXPECT_EQ(flops_of(plan(), "denoise"), whole) << "what it saves is not known";
}

TEST_F(MakePlan, AccelerationsWithoutUseAreSaid) {
  const auto warned = [this](const char* word) {
    const auto& warnings = plan().warnings;
    return std::any_of(warnings.begin(), warnings.end(), [&](const std::string& w) { return w.find(word) != std::string::npos; });
  };
  request.acceleration.reuse_velocity = 2;
  for (const int steps : {1, 8, 9, 20}) {
    request.steps = steps;
    EXPECT_EQ(warned("reuse_velocity"), steps <= 8) << steps;
  }
  request.acceleration = {};
  request.acceleration.easycache = 0.2;
  for (const int steps : {8, 9}) {
    request.steps = steps;
    EXPECT_EQ(warned("easycache"), steps <= 8) << steps;
  }
  request.acceleration = {};
  request.acceleration.reuse_core = 2;
  for (const int steps : {2, 3}) {
    request.steps = steps;
    EXPECT_EQ(warned("reuse_core"), steps == 2) << "of two steps none is left out: " << steps;
  }
  request.acceleration = {};
  request.acceleration.draft = true;
  EXPECT_TRUE(warned("draft")) << "one tile and one clip";
  request.frames = 39;
  EXPECT_FALSE(warned("draft"));
  request.frames = 22;
  request.width = 480;
  EXPECT_FALSE(warned("draft"));
}

TEST_F(MakePlan, ImpossibleAccelerationsAreRefused) {
  const auto refused = [this](const char* field, const char* part, const std::function<void(Acceleration&)>& set) {
    request.acceleration = {};
    set(request.acceleration);
    const auto made = make_plan(request, in, 99);
    ASSERT_FALSE(made.ok()) << field << " " << part;
    EXPECT_EQ(made.error().code, ErrorCode::usage);
    EXPECT_EQ(made.error().field, field);
    EXPECT_NE(made.error().text().find(part), std::string::npos) << made.error().text();
  };
  for (const int every : {0, -1, 1001}) refused("reuse_velocity", "1 to 1000", [&](Acceleration& a) { a.reuse_velocity = every; });
  for (const int every : {0, 7}) refused("reuse_core", "1 to 6", [&](Acceleration& a) { a.reuse_core = every; });
  for (const int blocks : {0, 2, 6, -3}) refused("blocks", "3 to 5", [&](Acceleration& a) { a.blocks = blocks; });
  for (const double threshold : {-0.1, 3.1, std::nan(""), std::numeric_limits<double>::infinity()})
    refused("easycache", "0 to 3", [&](Acceleration& a) { a.easycache = threshold; });
  for (const auto& [start, end] : {std::pair(0.5, 0.5), std::pair(-0.1, 0.9), std::pair(0.1, 1.1), std::pair(std::nan(""), 0.9)})
    refused("easycache_start", "not a part of a run", [&](Acceleration& a) {
      a.easycache = 0.2;
      a.easycache_start = start;
      a.easycache_end = end;
    });
  refused("easycache_start", "without easycache", [](Acceleration& a) { a.easycache_end = 0.5; });
  refused("reuse_core", "exclude each other", [](Acceleration& a) { a.reuse_core = a.reuse_velocity = 2; });
  refused("easycache", "reuse_velocity and easycache exclude", [](Acceleration& a) {
    a.reuse_velocity = 2;
    a.easycache = 0.2;
  });
}

}  // namespace
}  // namespace tritium
