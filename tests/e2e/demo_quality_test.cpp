// Does the demonstration model show and sound like what its prompts ask for? Measured in the decoded MP4, against the shares right that
// the model's own evaluation found with as many steps (models/demo/eval/results_20_steps.json, MODEL_CARD.md). Shape is only printed:
// the model does not know it well.
#include "e2e/demo_stages.h"
#include "media/reader.h"
#include "support/measure.h"
#include "unit/temp_folder.h"

#include <tritium/engine.h>

#include <gtest/gtest.h>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace tritium {
namespace {

constexpr double kAllowance = 0.03;  // below the evaluation's share: two of 64 clips, as its noise was other noise

struct Share {
  int right = 0, total = 0;
  [[nodiscard]] double value() const { return total == 0 ? 0 : static_cast<double>(right) / total; }
};

class Tally {
 public:
  void add(const std::string& prompt, const demo::Measured& measured, const nlohmann::json& expect) {
    for (const auto& [attribute, right] : demo::score(measured, expect)) {
      Share& share = shares_[attribute];
      ++share.total;
      if (right) ++share.right;
      const std::string wanted = expect.contains(attribute) ? expect[attribute].get<std::string>() : "by motion";
      if (!right && attribute != "shape")
        std::printf("  wrong %s: %s instead of %s | %s\n", attribute.c_str(), measured.answers().at(attribute).c_str(), wanted.c_str(),
                    prompt.c_str());
    }
  }

  void compare(const nlohmann::json& evaluation) const {
    std::printf("%-8s %-12s %-8s %s\n", "", "right", "share", "evaluation");
    for (const auto& [attribute, reference] : evaluation.items()) {
      const auto found = shares_.find(attribute);
      ASSERT_NE(found, shares_.end()) << attribute << " was never measured";
      const Share& share = found->second;
      std::printf("%-8s %3d of %3d   %.3f    %.3f\n", attribute.c_str(), share.right, share.total, share.value(), reference.get<double>());
      if (attribute == "shape") continue;
      EXPECT_GE(share.value(), reference.get<double>() - kAllowance) << attribute;
    }
  }

 private:
  std::map<std::string, Share> shares_;
};

TEST(DemoQuality, DecodedVideosShowWhatThePromptsSay) {
  const auto prompts = demo::json("eval/prompts.json");
  ASSERT_FALSE(prompts.empty());
  const test::TempFolder folder;
  EngineOptions options;
  const char* other = std::getenv("TRITIUM_DEMO_MODEL");  // the same model in another format: bench/format_quality.sh
  options.model = other != nullptr ? std::filesystem::path(other) : demo::folder();
  const auto engine = demo::require(Engine::open(options));
  Tally tally;
  for (const auto& each : prompts) {
    Request request;
    request.prompt = each.at("prompt").get<std::string>();
    request.seed = each.at("seed").get<std::uint64_t>();
    const auto artifact = engine->generate(request, {.video = folder.path() / "clip.mp4"});
    ASSERT_TRUE(artifact.ok()) << request.prompt << ": " << artifact.error().text();
    const Clip clip = demo::require(read_clip(artifact->video));
    tally.add(request.prompt, demo::require(demo::measure(clip)), each.at("expect"));
  }
  tally.compare(demo::json("eval/results_20_steps.json").at("accuracy"));
}

}  // namespace
}  // namespace tritium
