// Text-only cases of golden/text: every hidden state and the conditioning itself, with and without the hand-written kernels.
#include "model/text/text_model.h"
#include "support/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <map>

namespace tritium {
namespace {

constexpr double kTolerance = 5e-6;  // rel L2, golden/text/README.md

std::string text_of(const std::string& relative) { return golden::json(relative).dump(); }

std::vector<std::string> text_only_cases() {
  std::vector<std::string> cases;
  for (const auto& entry : std::filesystem::directory_iterator(golden::path("text"))) {
    if (entry.path().extension() != ".safetensors") continue;
    const golden::Tensors file("text/" + entry.path().filename().string());
    if (file.has("input_ids") && !file.has("pixel_values") && !file.has("pixel_values_videos"))
      cases.push_back(entry.path().stem().string());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

class GoldenTextModel : public ::testing::TestWithParam<bool> {};

TEST_P(GoldenTextModel, HiddenStatesMatchTheReference) {
  auto device = Device::open("CPU", 2);
  ASSERT_TRUE(device.ok()) << device.error().text();
  (*device)->set_fast_kernels(GetParam());
  const auto config = parse_text_config(text_of("text/tiny_qwen3vl.config.json"));
  ASSERT_TRUE(config.ok()) << config.error().text();
  const auto part = WeightPart::open(golden::path("text/tiny_qwen3vl.safetensors"));
  ASSERT_TRUE(part.ok()) << part.error().text();
  const auto model = TextModel::load(**device, *part, *config, MatrixPrecision::f32);
  ASSERT_TRUE(model.ok()) << model.error().text();

  const auto cases = text_only_cases();
  ASSERT_FALSE(cases.empty());
  for (const std::string& name : cases) {
    const golden::Tensors file("text/" + name + ".safetensors");
    std::map<std::string, std::vector<float>> seen;
    (*device)->set_observer([&](const std::string& tensor, std::span<const std::int64_t>, std::span<const float> values) {
      seen[tensor] = {values.begin(), values.end()};
    });
    std::vector<std::int32_t> ids;
    for (const std::int64_t id : file.i64("input_ids")) ids.push_back(static_cast<std::int32_t>(id));
    const auto axes = file.i64("position_ids");
    std::vector<std::array<std::int32_t, 3>> positions(ids.size());
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (std::size_t i = 0; i < ids.size(); ++i) positions[i][axis] = static_cast<std::int32_t>(axes[axis * ids.size() + i]);
    const auto result = model->encode(ids, positions);
    ASSERT_TRUE(result.ok()) << result.error().text();
    golden::expect_within(name + " final_hidden", golden::rel_l2(*result, file.f32("final_hidden")), kTolerance);
    for (int layer = 0; layer < config->layers; ++layer)
      if (const std::string key = fmt::format("hidden.{}", layer + 1); file.has(key))
        golden::expect_within(name + " " + key, golden::rel_l2(seen[fmt::format("text.layer{}.out", layer)], file.f32(key)), kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenTextModel, ::testing::Bool(), [](const auto& kernels) { return kernels.param ? "fast" : "plain"; });

}  // namespace
}  // namespace tritium
