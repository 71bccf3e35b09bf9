// Measured speeds in their file, the times that follow from them, and the report.
#include "pipeline/doctor_report.h"
#include "base/files.h"
#include "doctor/speeds.h"
#include "pipeline/stage_time.h"
#include "unit/temp_folder.h"

#include <gtest/gtest.h>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class SpeedsFile : public testing::Test {
 protected:
  SpeedsFile() { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }

  static MeasuredSpeeds speeds(const std::string& device, double f32 = 1e11) {
    MeasuredSpeeds out;
    out.device = device;
    out.description = "Model 1";
    out.threads = 2;
    out.of(ProductKind::f32) = {f32, 9e9};
    out.of(ProductKind::bf16) = {3e11, 0};
    out.of(ProductKind::decoded) = {2e11, 7e9};
    out.of(ProductKind::int8) = {6e11, 8e9};
    out.of(ProductKind::sound) = {1e11, 6e9};
    out.attention = 4e10;
    out.narrow_attention = 8e10;
    out.host_copy = 1e10;
    out.upload = 5e9;
    out.disk = 2e9;
    out.disk_how = "'a file'";
    out.measured = "2026-01-31T12:00:00Z";
    return out;
  }
  static DeviceInfo device(const std::string& name, const std::string& description = "Model 1") { return {name, description, "cpu", 0, 0}; }

  void expect_ignored(const std::string& content) {
    fs::create_directories(cache_folder());
    folder_.write("tritium/speeds.json", content);
    std::string warning;
    EXPECT_FALSE(stored_speeds(device("CPU"), &warning)) << content;
    EXPECT_NE(warning.find("speeds.json"), std::string::npos) << content << ": " << warning;
    EXPECT_FALSE(stored_speeds(device("CPU"))) << content;
  }

  test::TempFolder folder_;
};

TEST_F(SpeedsFile, WhatIsStoredIsFoundAgain) {
  std::string warning = "old";
  EXPECT_FALSE(stored_speeds(device("CPU"), &warning));
  EXPECT_EQ(warning, "");
  ASSERT_TRUE(doctor::store_speeds({speeds("CPU"), speeds("Vulkan0", 7e12)}).ok());
  const auto found = stored_speeds(device("Vulkan0"));
  ASSERT_TRUE(found);
  for (std::size_t kind = 0; kind < kProductKinds; ++kind) {
    EXPECT_EQ(found->products[kind].operations, speeds("", 7e12).products[kind].operations) << kind;
    EXPECT_EQ(found->products[kind].values, speeds("").products[kind].values) << kind;
  }
  EXPECT_EQ(found->attention, 4e10);
  EXPECT_EQ(found->narrow_attention, 8e10);
  EXPECT_EQ(found->upload, 5e9);
  EXPECT_EQ(found->disk_how, "'a file'");
  EXPECT_EQ(found->threads, 2);
  EXPECT_FALSE(stored_speeds(device("CUDA0")));
  EXPECT_FALSE(stored_speeds(device("CPU", "Model 2")));
}

TEST_F(SpeedsFile, ALaterMeasurementReplacesThatOfItsDeviceOnly) {
  ASSERT_TRUE(doctor::store_speeds({speeds("CPU", 1e11), speeds("Vulkan0", 7e12)}).ok());
  ASSERT_TRUE(doctor::store_speeds({speeds("CPU", 2e11)}).ok());
  EXPECT_EQ(stored_speeds(device("CPU"))->of(ProductKind::f32).operations, 2e11);
  EXPECT_EQ(stored_speeds(device("Vulkan0"))->of(ProductKind::f32).operations, 7e12);
}

TEST_F(SpeedsFile, BrokenFilesAreIgnoredWithAWarning) {
  for (const char* content : {"", "{", "[]", "null", R"({"speeds": 3})", R"({"speeds": {}})", "\xff\xfe"}) expect_ignored(content);
  ASSERT_TRUE(doctor::store_speeds({speeds("CPU")}).ok());  // written anew
  EXPECT_TRUE(stored_speeds(device("CPU")));
}

TEST_F(SpeedsFile, EntriesThatCannotBeAreIgnored) {
  ASSERT_TRUE(doctor::store_speeds({speeds("CPU")}).ok());
  std::ifstream in(doctor::speeds_file());
  const json good = json::parse(in);
  const auto with = [&](const char* key, const json& value) {
    json changed = good;
    changed["speeds"][0][key] = value;
    return changed.dump();
  };
  expect_ignored(with("f32", -1));
  expect_ignored(with("f32", "fast"));
  expect_ignored(with("disk", nullptr));
  expect_ignored(with("device", 7));
  expect_ignored(with("threads", 1.5));
}

// Earlier builds of this version did not measure as much.
TEST_F(SpeedsFile, AnOlderFileIsOfUseAsFarAsItGoes) {
  ASSERT_TRUE(doctor::store_speeds({speeds("CPU")}).ok());
  std::ifstream in(doctor::speeds_file());
  json old = json::parse(in);
  for (const char* key :
       {"int8_products", "sound", "f32_values", "bf16_values", "int8_values", "int8_products_values", "sound_values", "attention_bf16"})
    EXPECT_EQ(old["speeds"][0].erase(key), 1u) << key;
  folder_.write("tritium/speeds.json", old.dump());
  std::string warning;
  const auto found = stored_speeds(device("CPU"), &warning);
  ASSERT_TRUE(found) << warning;
  EXPECT_EQ(found->of(ProductKind::decoded).operations, 2e11);
  EXPECT_EQ(found->of(ProductKind::int8).operations, 0);
  const StageWork work{.flops = 6e11, .attention_flops = 4e11};
  EXPECT_DOUBLE_EQ(*compute_seconds(work, ProductKind::int8, *found), 1 + 10) << "as if the integers were decoded, attention in float32";
  EXPECT_DOUBLE_EQ(*compute_seconds(work, ProductKind::sound, *found), 2 + 10);
}

TEST_F(SpeedsFile, OtherVersionsDoNotCount) {
  ASSERT_TRUE(doctor::store_speeds({speeds("CPU")}).ok());
  std::ifstream in(doctor::speeds_file());
  json other = json::parse(in);
  other["ggml"] = "0.0.1";
  folder_.write("tritium/speeds.json", other.dump());
  std::string warning;
  EXPECT_FALSE(stored_speeds(device("CPU"), &warning));
  EXPECT_EQ(warning, "");
}

TEST_F(SpeedsFile, TheFolderFollowsTheEnvironment) {
  EXPECT_EQ(doctor::speeds_file(), folder_.path() / "tritium" / "speeds.json");
  setenv("XDG_CACHE_HOME", "relative", 1);  // to be ignored, says the standard
  setenv("HOME", "/somewhere", 1);
  EXPECT_EQ(doctor::speeds_file(), "/somewhere/.cache/tritium/speeds.json");
}

TEST(DoctorDisk, ReadsAFile) {
  const test::TempFolder folder;
  const auto speed = doctor::disk_speed(folder.write("weights", std::string(3u << 20, 'x')));
  ASSERT_TRUE(speed.ok()) << speed.error().text();
  EXPECT_GT(speed->bytes_per_second, 0);
  EXPECT_NE(speed->how.find("weights"), std::string::npos);
  EXPECT_FALSE(doctor::disk_speed(folder.path() / "absent").ok());
  EXPECT_FALSE(doctor::disk_speed_of_folder("/proc/nowhere").ok());
}

MeasuredSpeeds round_speeds() {
  MeasuredSpeeds out;
  out.of(ProductKind::f32) = {1e12, 0};
  out.of(ProductKind::bf16) = {2e12, 0};
  out.of(ProductKind::decoded) = {2.5e12, 0};
  out.of(ProductKind::int8) = {4e12, 0};
  out.of(ProductKind::sound) = {8e11, 0};
  out.attention = 2.5e11;
  out.narrow_attention = 5e11;
  out.disk = 1e9;
  return out;
}

ModelShape released(std::string_view preset) { return released_model_shape(*find_preset(preset), MatrixForm::packed); }

RequestShape request_of(int width, int height, int frames, int steps) {
  RequestShape out;
  out.width = width;
  out.height = height;
  out.frames = frames;
  out.steps = steps;
  out.text_tokens = 300;
  return out;
}

// spec/dit.md §15.
TEST(TimeEstimates, OperationsAreThoseOfTheReleasedModel) {
  const ModelShape model = released("bf16");
  struct Row {
    int width, height, frames;
    std::int64_t rows;
    double operations;
  };
  for (const Row& row : {Row{832, 480, 124, 15144, 0.912e15}, Row{960, 544, 124, 19584, 1.305e15}, Row{1344, 768, 124, 38010, 3.54e15},
                         Row{1344, 768, 362, 109362, 21.4e15}}) {
    const auto estimate = estimate_time(model, request_of(row.width, row.height, row.frames, 10), round_speeds());
    ASSERT_TRUE(estimate.ok() && *estimate);
    EXPECT_EQ((*estimate)->rows, row.rows);
    const StageTime& denoise = (*estimate)->stages.at(1);
    EXPECT_NEAR(denoise.flops / 10, row.operations, 0.01 * row.operations);
    EXPECT_NEAR(denoise.compute_seconds, (denoise.flops - denoise.attention_flops) / 2e12 + denoise.attention_flops / 5e11, 1e-6);
  }
  const auto longest = estimate_time(model, request_of(1344, 768, 362, 1), round_speeds());
  EXPECT_NEAR((*longest)->stages.at(1).attention_flops, 17.1e15, 0.1e15);
}

TEST(TimeEstimates, FormatsHaveTheirOwnSpeedsAndSizes) {
  const ModelShape models[] = {released("bf16"), released("int8-pruned")};
  const RequestShape request = request_of(832, 480, 124, 8);
  const auto wide = *estimate_time(models[0], request, round_speeds()), narrow = *estimate_time(models[1], request, round_speeds());
  const StageTime &a = wide->stages.at(1), &b = narrow->stages.at(1);
  EXPECT_NEAR((a.compute_seconds - a.attention_flops / 5e11) / (b.compute_seconds - b.attention_flops / 5e11), 2.0, 0.05);
  EXPECT_NEAR(a.read_seconds, 66.2, 1);  // spec/dit.md §2.1
  EXPECT_NEAR(b.read_seconds, 20.1, 1);  // half of the pruned bf16 file, §3
  EXPECT_DOUBLE_EQ(wide->compute_seconds,
                   a.compute_seconds + wide->stages[0].compute_seconds + wide->stages[2].compute_seconds + wide->stages[3].compute_seconds);
}

// By hand: 4 operations of attention in 10, 1 of a matrix that stays in bfloat16.
TEST(TimeEstimates, EveryKindOfWorkHasItsSpeed) {
  const StageWork work{.flops = 10e12, .attention_flops = 4e12, .values = 3e9, .plain_flops = 1e12, .plain_values = 1e9};
  MeasuredSpeeds speeds = round_speeds();
  EXPECT_DOUBLE_EQ(*compute_seconds(work, ProductKind::int8, speeds), 5.0 / 4 + 1.0 / 2 + 4 / 0.5);
  EXPECT_DOUBLE_EQ(*compute_seconds(work, ProductKind::decoded, speeds), 5.0 / 2.5 + 1.0 / 2 + 4 / 0.5);
  EXPECT_DOUBLE_EQ(*compute_seconds(work, ProductKind::f32, speeds), 6.0 / 1 + 4 / 0.25);
  EXPECT_DOUBLE_EQ(*compute_seconds(work, ProductKind::sound, speeds), 6.0 / 0.8 + 4 / 0.25);
  speeds.of(ProductKind::int8).values = 4e9;
  speeds.of(ProductKind::bf16).values = 1e9;
  EXPECT_DOUBLE_EQ(*compute_seconds(work, ProductKind::int8, speeds), 5.0 / 4 + 2.0 / 4 + 1.0 / 2 + 1 + 4 / 0.5);
}

// What the planner expects of a machine is what the estimate says.
TEST(TimeEstimates, PlansUseThem) {
  const ModelShape model = released("int8-pruned");
  const RequestShape request = request_of(832, 480, 124, 8);
  Machine machine;
  machine.host_budget = std::uint64_t{1} << 40;
  machine.disk_bandwidth = 1e9;
  machine.devices.push_back({"CPU", 0, true, 1e9, 0, round_speeds()});
  const auto plan = plan_memory(model, request, machine);
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  const auto estimate = *estimate_time(model, request, round_speeds());
  for (const StageTime& stage : estimate->stages) {
    const double planned = plan->stage(stage.name)->seconds;
    EXPECT_NEAR(planned, stage.compute_seconds, 1e-6 * planned) << stage.name;
  }
}

TEST(TimeEstimates, WithoutASpeedThereIsNone) {
  MeasuredSpeeds speeds = round_speeds();
  speeds.of(ProductKind::decoded) = speeds.of(ProductKind::int8) = {};
  const ModelShape models[] = {released("bf16"), released("int8-pruned")};
  const StageWork work{.flops = 1e12};
  EXPECT_TRUE(compute_seconds(work, ProductKind::bf16, speeds));
  EXPECT_FALSE(compute_seconds(work, ProductKind::int8, speeds));
  EXPECT_FALSE(*estimate_time(models[1], request_of(832, 480, 124, 8), speeds));
  speeds = round_speeds();
  speeds.attention = speeds.narrow_attention = 0;
  EXPECT_FALSE(*estimate_time(models[0], request_of(832, 480, 124, 8), speeds));
  EXPECT_FALSE(estimate_time(models[0], request_of(832, 480, 0, 8), speeds).ok());
  EXPECT_EQ(usual_requests().size(), 6u);
}

DoctorReport sample_report() {
  DeviceReport good, bad;
  good.device = {"CPU", "Model 1", "cpu", 8u << 20, 4u << 20};
  good.threads = 2;
  good.results = {{"linear", "qkv 5376->21504", "kernels", {doctor::Verdict::ok, 1e-7, 2e-5, 0.5, ""}},
                  {"conv1d", "8 channels", "kernels", {doctor::Verdict::refused, 1e-7, 2e-6, 0.1, "no kernel: plain operations"}},
                  {"attention", "2^31", "", {doctor::Verdict::left_out, 0, 0, 0, "needs 9 GiB of memory, 1 GiB is free"}}};
  good.speeds = round_speeds();
  good.speeds->disk_how = "'weights', past the page cache (O_DIRECT)";
  good.estimates.push_back(**estimate_time(released("bf16"), request_of(832, 480, 124, 8), *good.speeds));
  bad.device = {"Vulkan0", "Model 2", "gpu", 0, 0};
  bad.results = {{"rms_norm", "5376", "", {doctor::Verdict::failed, std::numeric_limits<double>::infinity(), 1e-6, 0.1, ""}}};
  return {{good, bad}, {"a note"}};
}

TEST(DoctorReports, TableForPeople) {
  const std::string text = doctor_text(sample_report());
  for (const char* part :
       {"CPU: Model 1", "ok        CPU      linear", "1.0e-07 of 2.0e-05", "refused   CPU      conv1d", "plain operations", "left out",
        "needs 9 GiB", "3 checks: 1 ok, 1 refused, 0 failed, 1 left out", "1000 GFLOP/s in f32", "O_DIRECT", "832x480", "CPU is usable",
        "failed    Vulkan0  rms_norm", "inf of 1.0e-06", "Vulkan0 is NOT usable", "--device", "a note"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(DoctorReports, JsonForMachines) {
  const json out = json::parse(doctor_json(sample_report()));
  EXPECT_EQ(out["usable"], false);
  EXPECT_EQ(out["devices"][0]["usable"], true);
  EXPECT_EQ(out["devices"][0]["checks"][0]["verdict"], "ok");
  EXPECT_EQ(out["devices"][0]["checks"][0]["tolerance"], 2e-5);
  EXPECT_FALSE(out["devices"][0]["checks"][2].contains("error"));
  EXPECT_EQ(out["devices"][0]["speeds"]["bf16"], 2e12);
  EXPECT_EQ(out["devices"][0]["estimates"][0]["rows"], 15144);
  EXPECT_TRUE(out["devices"][1]["checks"][0]["error"].is_null());
  EXPECT_EQ(out["devices"][1]["advice"].size(), 2u);
  EXPECT_EQ(out["notes"][0], "a note");
}

TEST(DoctorReports, DevicesThatCannotBeOpenedAreNotUsable) {
  DoctorReport report = sample_report();
  report.devices.pop_back();
  EXPECT_TRUE(report.usable());
  report.devices[0].error = "it could not be opened";
  EXPECT_FALSE(report.usable());
  EXPECT_NE(doctor_text(report).find("it could not be opened"), std::string::npos);
}

}  // namespace
}  // namespace tritium
