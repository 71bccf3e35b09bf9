// Where weights and memory go, for the real sizes: fits, streams, splits, refuses. Nothing here reads a file but the table in the docs.
#include "pipeline/memory_plan.h"

#include "pipeline/memory_table.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

namespace tritium {
namespace {

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
constexpr RequestShape kSmall{832, 480, 124, 50, 300, 0, 0, 0, false}, kLarge{1344, 768, 124, 50, 300, 0, 0, 0, false},
    kLong{1344, 768, 362, 50, 300, 0, 0, 0, false};

ModelShape released(std::string_view preset, MatrixForm form = MatrixForm::blocks) {
  return released_model_shape(*find_preset(preset), form);
}

Machine machine(std::vector<double> device_gib, double host_gib = 128) {
  Machine out;
  for (const double gib : device_gib)
    out.devices.push_back({"GPU" + std::to_string(out.devices.size()), static_cast<std::uint64_t>(gib * kGib), false, 5e13, 1.2e10});
  out.host_budget = static_cast<std::uint64_t>(host_gib * kGib);
  out.disk_bandwidth = 2e9;
  return out;
}

Machine computer(double gib) {
  Machine out = machine({}, gib);
  out.devices.push_back({"CPU", 0, true, 3e11, 0});
  return out;
}

MemoryPlan fitting(const ModelShape& model, const RequestShape& request, const Machine& machine, MemoryPolicy policy = {}) {
  auto plan = plan_memory(model, request, machine, policy);
  EXPECT_TRUE(plan.ok()) << plan.error().text();
  return plan.ok() ? std::move(*plan) : MemoryPlan{};
}

TEST(MemoryPlan, WhatFitsStays) {
  const MemoryPlan plan = fitting(released("q4_k"), kSmall, machine({96}));
  ASSERT_EQ(plan.stages.size(), 4u);
  for (const StagePlan& stage : plan.stages) {
    EXPECT_TRUE(stage.stays) << stage.name;
    EXPECT_EQ(stage.transfer_bytes, 0u) << stage.name;
    ASSERT_EQ(stage.shares.size(), 1u);
    EXPECT_EQ(stage.shares[0].slots, 0);
    EXPECT_EQ(stage.shares[0].resident_bytes, stage.weight_bytes);
  }
  ASSERT_EQ(plan.memories.size(), 2u);
  EXPECT_EQ(plan.memories[0].name, "GPU0");
  EXPECT_EQ(plan.memories[1].name, "host");
}

TEST(MemoryPlan, ATextEncoderWithoutRoomIsStreamedBesideTheTransformerWhichStays) {
  const ModelShape model = released("q4_k");
  const std::uint64_t both = model.text.total().resident + model.dit.total().resident;
  const MemoryPlan plan = fitting(model, kSmall, machine({24}));
  EXPECT_LT(plan.peak_of("GPU0"), both);
  EXPECT_FALSE(plan.stage("text")->stays);
  EXPECT_GT(plan.stage("text")->transfer_bytes, 0u);
  EXPECT_TRUE(plan.stage("denoise")->stays);
  EXPECT_EQ(plan.stage("denoise")->transfer_bytes, 0u);
}

TEST(MemoryPlan, WhatDoesNotFitIsStreamedWithSlots) {
  const ModelShape model = released("int8");
  const MemoryPlan plan = fitting(model, kSmall, machine({24}));
  const StagePlan& denoise = *plan.stage("denoise");
  const DeviceShare& share = denoise.shares.at(0);
  EXPECT_EQ(share.blocks, 50);
  EXPECT_GT(share.resident_blocks, 0);
  EXPECT_LT(share.resident_blocks, 50);
  EXPECT_EQ(share.streamed_bytes, static_cast<std::uint64_t>(50 - share.resident_blocks) * model.dit.largest_unit());
  EXPECT_EQ(share.resident_bytes,
            model.dit.other.resident + static_cast<std::uint64_t>(share.resident_blocks + share.slots) * model.dit.largest_unit());
  EXPECT_EQ(denoise.transfer_bytes, share.streamed_bytes);
  EXPECT_EQ(denoise.passes, kSmall.steps);
  EXPECT_GT(denoise.host_bytes, denoise.transfer_bytes) << "what is streamed is kept in host memory";
}

// Evaluations and blocks that are left out cost no time and no transfers; what is remembered takes memory.
TEST(MemoryPlan, AnAccelerationIsCosted) {
  const ModelShape model = released("int8");
  const MemoryPlan plain = fitting(model, kSmall, machine({24}));
  RequestShape wanted = kSmall;
  wanted.acceleration.evaluations = 17;
  wanted.acceleration.blocks = 40;
  wanted.acceleration.remembered = 2;
  wanted.acceleration.decoding = video_vae::Decoding::draft;
  const MemoryPlan plan = fitting(model, wanted, machine({24}));
  const StagePlan &before = *plain.stage("denoise"), &after = *plan.stage("denoise");
  EXPECT_EQ(after.passes, 17);
  EXPECT_NEAR(after.flops / before.flops, 17.0 / 50 * 40 / 50, 0.01);
  EXPECT_NEAR(static_cast<double>(after.transfer_bytes) / static_cast<double>(before.transfer_bytes), 0.8, 0.01);
  EXPECT_LT(after.seconds, 0.4 * before.seconds);
  EXPECT_NEAR(plan.stage("video")->flops / plain.stage("video")->flops, 0.5, 0.05) << "832x480: 8 tiles for 12, 37 tokens for 49";
  wanted = kSmall;
  wanted.acceleration.residual = true;
  const std::uint64_t targets = 37 * 15 * 26 + 2 * 207;
  EXPECT_EQ(fitting(model, wanted, machine({24})).stage("denoise")->working_bytes - before.working_bytes, 4 * targets * 5376);
}

// With little host memory the blocks come from the disk, and that takes longer.
TEST(MemoryPlan, StreamingFromTheDiskIsSlowerThanFromTheHost) {
  const ModelShape model = released("int8");
  const RequestShape quick{512, 320, 56, 50, 300, 0, 0, 0, false};
  const MemoryPlan fast = fitting(model, quick, machine({14}, 128)), slow = fitting(model, quick, machine({14}, 8));
  EXPECT_LE(slow.peak_of("host"), 8 * kGib);
  EXPECT_GT(slow.stage("denoise")->seconds, fast.stage("denoise")->seconds);
}

TEST(MemoryPlan, AModelIsSplitByLayersInProportionToTheRoom) {
  const ModelShape model = released("bf16");
  const MemoryPlan plan = fitting(model, kSmall, machine({60, 60}));
  const StagePlan& denoise = *plan.stage("denoise");
  ASSERT_EQ(denoise.shares.size(), 2u);
  EXPECT_EQ(denoise.shares[0].blocks + denoise.shares[1].blocks, 50);
  EXPECT_NEAR(denoise.shares[0].blocks, 25, 2);
  EXPECT_EQ(denoise.transfer_bytes, 0u);
  EXPECT_EQ(denoise.device, "GPU0+GPU1");

  const MemoryPlan uneven = fitting(model, kSmall, machine({60, 40}));
  const auto& shares = uneven.stage("denoise")->shares;
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_GT(shares[0].blocks, shares[1].blocks);
}

TEST(MemoryPlan, TheTextEncoderGoesWhereItMayStay) {
  const MemoryPlan plan = fitting(released("q4_k"), kSmall, machine({22, 22}));
  EXPECT_NE(plan.stage("text")->device, plan.stage("denoise")->device);
  EXPECT_TRUE(plan.stage("text")->stays);
  EXPECT_TRUE(plan.stage("denoise")->stays);
}

TEST(MemoryPlan, OnTheCpuEverythingIsInTheHostsMemory) {
  const ModelShape model = released("int8-pruned", MatrixForm::packed);
  const MemoryPlan plan = fitting(model, kLarge, computer(96));
  ASSERT_EQ(plan.memories.size(), 1u);
  EXPECT_EQ(plan.memories[0].name, "host");
  const StagePlan& denoise = *plan.stage("denoise");
  EXPECT_GE(plan.peak_of("host"), denoise.weight_bytes + denoise.working_bytes + denoise.host_bytes);
  const std::uint64_t clip = std::uint64_t{3} * 1344 * 768 * 124;
  EXPECT_GT(plan.stage("video")->host_bytes, clip) << "decoded frames";
}

TEST(MemoryPlan, ARefusalSaysNeedHaveAndWhatWouldFit) {
  MemoryAlternatives alternatives;
  alternatives.devices = machine({80}).devices;
  alternatives.devices[0].name = "GPU7";
  const auto refused = plan_memory(released("int8"), kLong, machine({24}), {}, [&] { return alternatives; });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::does_not_fit);
  for (const char* part : {"1344x768 with 362 frames", "memory on GPU0", "'denoise'", "24.00 GiB is allowed"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << part << ": " << refused.error().text();
  for (const char* part : {"what would fit", "frames", "the device GPU7"})
    EXPECT_NE(refused.error().hint.find(part), std::string::npos) << part << ": " << refused.error().text();

  // What is proposed does fit.
  int frames = 0, width = 0, height = 0;
  const std::string& hint = refused.error().hint;
  ASSERT_EQ(std::sscanf(hint.c_str(), "what would fit: %dx%d; or %d frames", &width, &height, &frames), 3) << hint;
  RequestShape shorter = kLong, smaller = kLong;
  shorter.frames = frames;
  smaller.width = width;
  smaller.height = height;
  fitting(released("int8"), shorter, machine({24}));
  fitting(released("int8"), smaller, machine({24}));
  shorter.frames += 17;
  EXPECT_FALSE(plan_memory(released("int8"), shorter, machine({24}), {}).ok()) << "more frames would fit too";
}

TEST(MemoryPlan, AnotherFormatIsProposedWhereNothingIsStreamed) {
  MemoryAlternatives alternatives;
  for (const char* name : {"int8-pruned", "q4_k"}) alternatives.models.push_back(released(name));
  const MemoryPolicy resident{true, false, false, true};
  const auto refused = plan_memory(released("int8"), kSmall, machine({29.5}), resident, [&] { return alternatives; });
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().hint.find("Q4_K"), std::string::npos) << refused.error().text();
  EXPECT_EQ(refused.error().hint.find("bf16"), std::string::npos) << refused.error().text();
}

TEST(MemoryPlan, WhereNothingFitsItSaysSo) {
  const auto refused = plan_memory(released("bf16"), kLong, machine({1}), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().hint.find("nothing smaller would fit"), std::string::npos) << refused.error().text();
}

TEST(MemoryPlan, TheHostHasALimitOfItsOwn) {
  const auto refused = plan_memory(released("q4_k"), kLong, machine({64}, 0.5), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("host memory"), std::string::npos) << refused.error().text();
}

// The pictures of a long clip, 1.1 GB, are never in memory as a whole: only more of its sound and latents are.
TEST(MemoryPlan, ALongClipTakesHardlyMoreOfTheHostThanAShortOne) {
  const auto host_bytes = [](const RequestShape& request) {
    return fitting(released("q4_k"), request, machine({64})).stage("video")->host_bytes;
  };
  RequestShape shorter = kLong;
  shorter.frames = 124;
  EXPECT_LT(host_bytes(kLong) - host_bytes(shorter), std::uint64_t{256} << 20);
}

// What is in one place at one time, added up anew from the stages.
void expect_within_budgets(const MemoryPlan& plan, const Machine& machine) {
  for (const MemoryPeak& memory : plan.memories) EXPECT_LE(memory.peak_bytes, memory.budget_bytes) << memory.name;
  for (const StagePlan& stage : plan.stages) {
    EXPECT_LE(stage.host_bytes, machine.host_budget) << stage.name;
    for (const MachineDevice& device : machine.devices) {
      std::uint64_t sum = device.host ? stage.host_bytes : 0;
      for (const StagePlan& other : plan.stages)
        for (const DeviceShare& share : other.shares)
          if (share.device == device.name && (&other == &stage || other.stays))
            sum += share.resident_bytes + (&other == &stage ? share.working_bytes : 0);
      EXPECT_LE(sum, device.host ? machine.host_budget : device.budget) << stage.name << " on " << device.name;
    }
  }
}

RequestShape random_request(std::mt19937& random) {
  const auto number = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
  return {32 * number(8, 42), 32 * number(8, 24), 5 + 17 * number(1, 21), number(1, 50), number(1, 600), number(0, 20000), 0, 0, false};
}

TEST(MemoryPlan, NoPlanExceedsItsBudgets) {
  std::mt19937 random(1);
  const auto gib = [&](double most) { return std::uniform_real_distribution(0.5, most)(random); };
  std::vector<ModelShape> models;
  for (const ModelPreset& preset : model_presets())
    for (const MatrixForm form : {MatrixForm::packed, MatrixForm::blocks}) models.push_back(released_model_shape(preset, form));
  int fitted = 0;
  for (int i = 0; i < 4000; ++i) {
    Machine machine = random() % 4 == 0 ? computer(gib(128)) : tritium::machine({gib(96)}, gib(96));
    for (int more = 0; !machine.devices[0].host && more < static_cast<int>(random() % 4); ++more)
      machine.devices.push_back({"extra" + std::to_string(more), static_cast<std::uint64_t>(gib(64) * kGib), false, 1e13, 1e10});
    const MemoryPolicy policy{random() % 8 != 0, random() % 4 != 0, random() % 4 != 0, random() % 4 != 0};
    MemoryPlan plan;
    if (try_plan(models[random() % models.size()], random_request(random), machine, policy, plan)) continue;
    ++fitted;
    expect_within_budgets(plan, machine);
    for (const StagePlan& stage : plan.stages) {
      int blocks = 0;
      for (const DeviceShare& share : stage.shares) blocks += share.blocks;
      EXPECT_EQ(blocks, stage.name == "denoise" || stage.name == "text" ? 50 : 0);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(fitted, 500);
}

// Only where several devices may share a model, a hundredth is given up for not streaming.
TEST(MemoryPlan, MoreMemoryIsNeverSlowerAndNeverRefused) {
  const auto check = [](const ModelShape& model, const RequestShape& request, auto make, const char* what, double slack = 1e-9) {
    double before = std::numeric_limits<double>::infinity();
    for (double gib = 1; gib < 100; gib *= 1.03) {
      MemoryPlan plan;
      const bool fits = !try_plan(model, request, make(gib), {}, plan);
      EXPECT_TRUE(fits || std::isinf(before)) << what << ": refused at " << gib;
      if (!fits) continue;
      EXPECT_LE(plan.seconds, before * (1 + slack)) << what << " at " << gib << " GiB";
      before = plan.seconds;
    }
    EXPECT_FALSE(std::isinf(before)) << what;
  };
  for (const char* name : {"bf16", "int8", "int8-pruned", "q4_k"})
    for (const RequestShape& request : {kSmall, kLarge}) {
      const ModelShape model = released(name), packed = released(name, MatrixForm::packed);
      check(
          model, request, [](double gib) { return machine({gib}); }, "one device");
      check(
          model, request, [](double gib) { return machine({gib}, 6); }, "one device, little host memory");
      check(
          model, request, [](double gib) { return machine({24}, gib); }, "more host memory");
      check(
          model, request,
          [](double gib) {
            return machine({gib, gib});
          },
          "two devices", 0.01);
      check(
          packed, request, [](double gib) { return computer(gib); }, "the CPU");
    }
}

TEST(MemoryPlan, WhereNothingMayLeaveEverythingMustFit) {
  constexpr MemoryPolicy kKeep{false, false, false, false};
  const ModelShape model = released("q4_k", MatrixForm::packed);
  const MemoryPlan plan = fitting(model, kSmall, computer(128), kKeep);
  std::uint64_t weights = 0;
  for (const StagePlan& stage : plan.stages) {
    EXPECT_TRUE(stage.stays);
    EXPECT_EQ(stage.transfer_bytes, 0u);
    weights += stage.weight_bytes;
  }
  EXPECT_GT(plan.peak_of("host"), weights + plan.stage("denoise")->working_bytes);
  EXPECT_FALSE(plan_memory(model, kSmall, computer(30), kKeep).ok());
}

TEST(MemoryPlan, StagesRunWhereTheyAreToldTo) {
  const ModelShape model = released("int8");
  Machine two = machine({64, 64});
  two.fixed = {{"text", {{1}, {}}}, {"denoise", {{0, 1}, {60, 40}}}, {"video", {{1}, {}}}};
  const MemoryPlan plan = fitting(model, kSmall, two);
  EXPECT_EQ(plan.stage("text")->device, "GPU1");
  EXPECT_EQ(plan.stage("video")->device, "GPU1");
  const StagePlan& denoise = *plan.stage("denoise");
  ASSERT_EQ(denoise.shares.size(), 2u);
  EXPECT_EQ(denoise.shares[0].blocks, 30);
  EXPECT_EQ(denoise.shares[1].blocks, 20);
  EXPECT_LE(plan.peak_of("GPU0"), 64 * kGib);
  EXPECT_LE(plan.peak_of("GPU1"), 64 * kGib);
}

TEST(MemoryPlan, DevicesThatComputeInHostMemoryShareIt) {
  const ModelShape model = released("q4_k", MatrixForm::packed);
  Machine both = computer(64);
  both.devices.push_back({"CPU#2", 0, true, 3e11, 1.2e10});
  both.fixed = {{"denoise", {{0, 1}, {1, 1}}}, {"text", {{1}, {}}}};
  const MemoryPlan one = fitting(model, kSmall, computer(64)), plan = fitting(model, kSmall, both);
  EXPECT_EQ(plan.memories.size(), 1u);
  EXPECT_GE(plan.peak_of("host"), one.peak_of("host")) << "two halves take no less than the whole";
  EXPECT_LE(plan.peak_of("host"), 64 * kGib);
}

TEST(MemoryPlan, MachinesAreWrittenAsGibibytes) {
  const auto two = parse_machine("2x64", 128), mixed = parse_machine("64,2x24.5", 128), host = parse_machine("cpu:32", 128);
  ASSERT_TRUE(two.ok() && mixed.ok() && host.ok());
  EXPECT_EQ(two->devices.size(), 2u);
  EXPECT_EQ(mixed->devices.size(), 3u);
  EXPECT_LT(mixed->devices[2].budget, mixed->devices[0].budget);
  EXPECT_TRUE(host->devices.at(0).host);
  EXPECT_LT(host->host_budget, 32 * kGib);
  for (const char* text : {"", "x", "2x", "x24", "1.5x24", "0x24", "-24", "24,", "cpu:", "999x1"}) {
    const auto wrong = parse_machine(text, 128);
    ASSERT_FALSE(wrong.ok()) << text;
    EXPECT_EQ(wrong.error().field, "devices");
  }
}

TEST(MemoryPlan, TheTableInTheDocumentationIsWhatIsPrinted) {
  const auto path = std::filesystem::path(TRITIUM_SOURCE_DIR) / "docs/memory-table.md";
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), memory_table()) << "write it anew: tritium plan --table > docs/memory-table.md";
}

}  // namespace
}  // namespace tritium
