// What a request may not say. Each refusal has code usage and names the field, the value, what is allowed and the way out.
#include "unit/demo_plan.h"

#include <cmath>
#include <functional>
#include <limits>

namespace tritium {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max(), kLeast = std::numeric_limits<std::int64_t>::min();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

class BadValues : public test::DemoPlan {
 protected:
  void expect_refused(const std::string& field, const std::vector<std::string>& parts, const std::function<void(Request&)>& change) {
    Request bad = request;
    change(bad);
    const auto made = make_plan(bad, in, 0);
    ASSERT_FALSE(made.ok()) << field;
    const Error& error = made.error();
    EXPECT_EQ(error.code, ErrorCode::usage) << error.text();
    EXPECT_EQ(error.field, field) << error.text();
    for (const std::string& part : parts)
      EXPECT_NE(error.text().find(part), std::string::npos) << "'" << part << "' is not in: " << error.text();
  }
};

TEST_F(BadValues, Sizes) {
  for (const std::int64_t side : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{8193}, std::int64_t{100000}, kMost, kLeast}) {
    const std::string nearest = side < 1 ? "nearest possible value is 32" : "nearest possible value is 8192";
    expect_refused("width", {std::to_string(side), "1..8192", nearest}, [&](Request& r) { r.width = side; });
    expect_refused("height", {std::to_string(side), "1..8192", nearest}, [&](Request& r) { r.height = side; });
  }
}

TEST_F(BadValues, Lengths) {
  for (const std::int64_t frames : {std::int64_t{0}, std::int64_t{-17}, std::int64_t{3610}, kMost, kLeast}) {
    const std::string nearest = frames < 1 ? "nearest possible length is 5 frames" : "nearest possible length is 3609 frames";
    expect_refused("frames", {std::to_string(frames), "1..3609", nearest}, [&](Request& r) { r.frames = frames; });
  }
  for (const double seconds : {0.0, -0.0, -1.0, 151.0, 400.0, 1e300, kInfinity, -kInfinity, kNaN})
    expect_refused("seconds", {"150.375", "nearest possible length is"}, [&](Request& r) { r.seconds = seconds; });
  expect_refused("frames", {"seconds", "give one of them"}, [](Request& r) {
    r.frames = 22;
    r.seconds = 1;
  });
}

TEST_F(BadValues, StepsAndSchedule) {
  for (const std::int64_t steps :
       {std::int64_t{0}, std::int64_t{-4}, std::int64_t{1001}, std::int64_t{100000}, (std::int64_t{1} << 32) + 1, kMost, kLeast})
    expect_refused("steps", {std::to_string(steps), "1 to 1000", steps < 1 ? "nearest valid value is 1" : "nearest valid value is 1000"},
                   [&](Request& r) { r.steps = steps; });
  for (const double shift : {0.0, 0.09, -12.0, 100.5, 1e300, kInfinity, kNaN}) {
    expect_refused("video_shift", {"0.1..100", "12"}, [&](Request& r) { r.video_shift = shift; });
    expect_refused("audio_shift", {"0.1..100", "3"}, [&](Request& r) { r.audio_shift = shift; });
  }
  expect_refused("noise", {"'pink'", "diffsynth, sglang, comfyui"}, [](Request& r) { r.noise = "pink"; });
  expect_refused("noise", {"''"}, [](Request& r) { r.noise = ""; });
}

TEST_F(BadValues, AZeroByteInThePrompt) {
  expect_refused("prompt", {"zero byte at offset 5", "UTF-8"}, [](Request& r) { r.prompt = std::string("a red\0circle", 12); });
}

TEST_F(BadValues, TheOutermostValuesAreAccepted) {
  const auto accepted = [&](const std::function<void(Request&)>& change) {
    Request extreme = request;
    change(extreme);
    const auto made = make_plan(extreme, in, 0);
    EXPECT_TRUE(made.ok()) << made.error().text();
  };
  accepted([](Request& r) { r.width = r.height = 1; });
  accepted([](Request& r) { r.width = r.height = 8192; });
  accepted([](Request& r) { r.frames = 1; });
  accepted([](Request& r) { r.frames = 3609; });
  accepted([](Request& r) { r.seconds = 1e-6; });
  accepted([](Request& r) { r.seconds = 150.375; });
  accepted([](Request& r) { r.steps = 1; });
  accepted([](Request& r) { r.steps = 1000; });
  accepted([](Request& r) { r.video_shift = 0.1; });
  accepted([](Request& r) { r.audio_shift = 100; });
  accepted([](Request& r) { r.seed = std::numeric_limits<std::uint64_t>::max(); });
  for (const char* noise : {"diffsynth", "sglang", "comfyui"}) accepted([&](Request& r) { r.noise = noise; });
}

// Nothing overflows on the way to the answer, whatever is combined.
TEST_F(BadValues, ThePlanOfTheLargestRequestIsFinite) {
  request.width = request.height = 8192;
  request.frames = 3609;
  request.steps = 1000;
  const Plan plan = this->plan();
  EXPECT_GT(plan.rows, 0);
  EXPECT_GT(plan.peak_bytes, static_cast<std::uint64_t>(plan.rows) * static_cast<std::uint64_t>(in.dit.hidden) * sizeof(float));
  for (const StagePlan& stage : plan.stages) EXPECT_TRUE(std::isfinite(stage.flops)) << stage.name;
}

}  // namespace
}  // namespace tritium
