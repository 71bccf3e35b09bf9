// "tritium doctor" as people run it, with few checks.
#include "support/tritium_program.h"

#include <gtest/gtest.h>

namespace tritium::test {
namespace {

class DoctorProgram : public TritiumProgram {
 protected:
  [[nodiscard]] Outcome doctor(const Arguments& arguments, std::map<std::string, std::string> environment = {}) const {
    Command out = command(Arguments{"doctor", "--device", "cpu"} + arguments);
    out.environment = std::move(environment);
    out.environment["XDG_CACHE_HOME"] = path("cache");
    return run(out);
  }
};

TEST_F(DoctorProgram, ChecksOfOneOperation) {
  const Outcome outcome = doctor({"--only", "rotate,modulate", "--no-speeds", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto report = parse(outcome.out);
  EXPECT_EQ(report["usable"], true);
  ASSERT_EQ(report["devices"].size(), 1u);
  const auto& device = report["devices"][0];
  EXPECT_EQ(device["name"], "CPU");
  ASSERT_EQ(device["checks"].size(), 2u);
  for (const auto& check : device["checks"]) {
    EXPECT_EQ(check["verdict"], "ok") << check;
    EXPECT_LE(check["error"], check["tolerance"]) << check;
  }
  EXPECT_FALSE(device.contains("speeds"));
  EXPECT_EQ(files(), std::set<std::string>());
}

TEST_F(DoctorProgram, SpeedsAreMeasuredAndStored) {
  const Outcome outcome = doctor({"--only", "rotate"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("GFLOP/s in bf16"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("832x480"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("CPU is usable"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("measuring speeds"), std::string::npos) << outcome.err;
  std::ifstream in(path("cache/tritium/speeds.json"));
  const auto stored = nlohmann::json::parse(in, nullptr, false);
  ASSERT_TRUE(stored.is_object());
  ASSERT_EQ(stored["speeds"].size(), 1u);
  EXPECT_EQ(stored["speeds"][0]["device"], "CPU");
  for (const char* speed : {"f32", "bf16", "int8", "sound", "attention", "attention_bf16", "host_copy", "upload"})
    EXPECT_GT(stored["speeds"][0][speed], 0) << speed;
}

TEST_F(DoctorProgram, SeveralDevicesEachInAProcessOfItsOwn) {
  const Outcome outcome = doctor({"--device", "CPU", "--only", "rotate", "--no-speeds", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto report = parse(outcome.out);
  EXPECT_EQ(report["usable"], true);
  ASSERT_EQ(report["devices"].size(), 2u);
  for (const auto& device : report["devices"]) EXPECT_EQ(device["checks"].size(), 1u) << device;
  const Outcome text = doctor({"--device", "CPU", "--only", "rotate", "--no-speeds"});
  ASSERT_EQ(text.status, 0) << text.err;
  const std::size_t first = text.out.find("CPU is usable");
  ASSERT_NE(first, std::string::npos) << text.out;
  EXPECT_NE(text.out.find("CPU is usable", first + 1), std::string::npos) << text.out;
}

TEST_F(DoctorProgram, PlainOperationsWhereTheEnvironmentAsksForThem) {
  const Outcome outcome = doctor({"--only", "pointwise_snake", "--no-speeds", "--json"}, {{"TRITIUM_KERNELS", "plain"}});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto report = parse(outcome.out);
  for (const auto& check : report["devices"][0]["checks"]) EXPECT_EQ(check["path"], "plain") << check;
}

TEST_F(DoctorProgram, MistakesOfTheCallerAreNamed) {
  const Outcome device = tritium({"doctor", "--device", "Abacus"});
  EXPECT_EQ(device.status, 5);
  EXPECT_NE(device.err.find("Abacus"), std::string::npos) << device.err;
  EXPECT_NE(device.err.find("CPU"), std::string::npos) << device.err;
  const Outcome operation = doctor({"--only", "sorting", "--no-speeds"});
  EXPECT_EQ(operation.status, 2);
  EXPECT_NE(operation.err.find("sorting"), std::string::npos) << operation.err;
  EXPECT_EQ(doctor({"-m", path("absent")}).status, 3);
}

}  // namespace
}  // namespace tritium::test
