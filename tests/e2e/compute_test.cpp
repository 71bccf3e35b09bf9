// What --compute, TRITIUM_KERNELS, --profile and "tritium bench" do, with whole clips of the demo model.
#include "support/tritium_program.h"
#include "weights/checkpoint.h"

#include <cmath>
#include <fstream>
#include <iterator>

namespace tritium::test {
namespace {

const std::string kDemo = std::string(TRITIUM_SOURCE_DIR) + "/models/demo";
const Arguments kQuick = {
    "generate", "a red circle moves to the right", "--frames", "5", "--steps", "2", "--seed", "7", "--width", "192", "--height", "192"};

class Compute : public TritiumProgram {
 protected:
  [[nodiscard]] std::string bytes_of(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    EXPECT_TRUE(in) << name;
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // The file of the final latents.
  [[nodiscard]] std::string latents(const std::string& name, const Arguments& arguments) const {
    (void)succeed(kQuick + arguments + Arguments{"-o", name + ".mp4", "--latents", name + ".safetensors"});
    return bytes_of(name + ".safetensors");
  }
  // Of the pictures' latents.
  [[nodiscard]] double relative_l2(const std::string& a, const std::string& b) const {
    const auto values = [&](const std::string& name) { return Checkpoint::open(path(name + ".safetensors"))->read_f32("video").value(); };
    const std::vector<float> x = values(a), y = values(b);
    double difference = 0, sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
      sum += std::pow(static_cast<double>(y[i]), 2);
    }
    return std::sqrt(difference / sum);
  }
};

// As its reference does: integers on both sides, within what 8 bits of activations cost (docs/guarantees.md), and the same bits however it
// is run.
TEST_F(Compute, TransformersInRotatedIntegersMeetActivationsOf8Bits) {
  for (const char* format : {"int8-convrot", "w4a8"}) {
    const std::string file = std::string(format) + ".safetensors";
    (void)succeed({"convert", kDemo, file, "--to", format, "--part", "dit"});
    if (tritium({"plan", "x", "-m", kDemo, "--dit", file, "--compute", "int8"}).status == 2)
      GTEST_SKIP() << "THIS PROCESSOR HAS NO PRODUCTS OF 8-BIT INTEGERS";
    const std::string f32 = latents("f32", {"-m", kDemo, "--dit", file, "--compute", "f32"});
    const std::string one = latents("int8", {"-m", kDemo, "--dit", file, "--compute", "int8", "--threads", "1"});
    for (const char* threads : {"2", "3", "7"})
      EXPECT_EQ(latents("again", {"-m", kDemo, "--dit", file, "--compute", "int8", "--threads", threads}), one)
          << format << ", " << threads << " threads";
    EXPECT_NE(f32, one);
    const double error = relative_l2("int8", "f32");
    std::printf("%s: relative L2 of int8 from f32 %.3g\n", format, error);
    EXPECT_LE(error, 0.05) << format;
  }
}

TEST_F(Compute, OlderProcessorsMakeTheSameClip) {
  (void)latents("best", {});
  for (const char* kernels : {"avx2", "generic"}) {
    Command old = command(kQuick + Arguments{"-o", "old.mp4", "--latents", "old.safetensors"});
    old.environment = {{"TRITIUM_KERNELS", kernels}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}};
    const Outcome outcome = run(old);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_LE(relative_l2("old", "best"), 1e-5) << kernels;
  }
}

TEST_F(Compute, AProfileIsATraceAndATable) {
  (void)succeed(kQuick + Arguments{"-o", "out.mp4", "--profile", "profile.json"});
  const auto trace = parse(bytes_of("profile.json"));
  ASSERT_GT(trace["traceEvents"].size(), 100u);
  for (const auto& event : trace["traceEvents"]) {
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GE(event["dur"].get<double>(), 0.0);
  }
  const std::string table = bytes_of("profile.json.txt");
  EXPECT_NE(table.find("dit.step#.block#"), std::string::npos) << table;
  EXPECT_NE(table.find("seconds in"), std::string::npos) << table;
}

TEST_F(Compute, BenchReportsEveryStageAndDrawsItsSeeds) {
  const Arguments bench = {"bench", "--runs", "2", "--frames", "5", "--steps", "2", "--width", "192", "--height", "192"};
  const auto report = json(bench + Arguments{"--json"});
  for (const char* stage : {"load", "text", "denoise", "video", "audio", "write", "all"}) {
    const auto& seconds = report["seconds"][stage];
    ASSERT_EQ(seconds["all"].size(), 2u) << stage;
    EXPECT_LE(seconds["least"].get<double>(), seconds["median"].get<double>()) << stage;
    EXPECT_LE(seconds["median"].get<double>(), seconds["most"].get<double>()) << stage;
  }
  EXPECT_NE(report["seeds"][0], report["seeds"][1]);
  EXPECT_EQ(report["plan"]["steps"], 2);
  EXPECT_GT(report["machine"]["threads"].get<int>(), 0);
  EXPECT_EQ(tritium(bench + Arguments{"--seed", "1"}).status, 2) << "a seed would make every run the same";
  EXPECT_TRUE(files().empty()) << "videos are thrown away";
}

}  // namespace
}  // namespace tritium::test
