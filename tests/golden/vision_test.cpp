// golden/text with pictures and videos: every intermediate of the vision tower, the embeddings with its rows in place, every hidden state
// and the conditioning itself, with and without the hand-written kernels.
#include "base/try.h"
#include "model/prompt/presentation.h"
#include "model/text/text_model.h"
#include "model/vision/tower.h"
#include "support/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <map>
#include <set>

namespace tritium {
namespace {

constexpr double kTolerance = 5e-6;      // rel L2, golden/text/README.md
constexpr double kToleranceBf16 = 5e-2;  // of the reference's own run in bfloat16 to ours in float32

std::vector<std::string> files_ending(const std::string& ending) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(golden::path("text")))
    if (const std::string name = entry.path().filename().string(); name.ends_with(ending))
      out.push_back(name.substr(0, name.size() - ending.size()));
  std::sort(out.begin(), out.end());
  return out;
}

// The model that the cases were made with: the one with a configuration beside it.
std::string model_name() {
  const auto names = files_ending(".config.json");
  EXPECT_EQ(names.size(), 1u) << "golden/text must hold one *.config.json";
  return names.empty() ? "" : names.front();
}

struct Models {
  std::unique_ptr<Device> device;
  VisionConfig vision_config;
  std::unique_ptr<VisionTower> tower;
  std::unique_ptr<TextModel> text;
};

Result<Models> load_models(bool fast_kernels) {
  const std::string name = model_name(), config = golden::json("text/" + name + ".config.json").dump();
  Models out;
  TRITIUM_TRY_ASSIGN(out.device, Device::open("CPU", 2));
  out.device->set_fast_kernels(fast_kernels);
  TRITIUM_TRY_ASSIGN(out.vision_config, parse_vision_config(config));
  TRITIUM_TRY_ASSIGN(const TextConfig text_config, parse_text_config(config));
  TRITIUM_TRY_ASSIGN(const auto part, WeightPart::open(golden::path("text/" + name + ".safetensors")));
  TRITIUM_TRY_ASSIGN(VisionTower tower, VisionTower::load(*out.device, *part, out.vision_config, MatrixPrecision::f32));
  TRITIUM_TRY_ASSIGN(TextModel text, TextModel::load(*out.device, part, text_config, MatrixPrecision::f32));
  out.tower = std::make_unique<VisionTower>(std::move(tower));
  out.text = std::make_unique<TextModel>(std::move(text));
  return out;
}

std::vector<PatchGrid> grids_of(const golden::Tensors& file, const std::string& key) {
  std::vector<PatchGrid> out;
  if (!file.has(key)) return out;
  const auto values = file.i64(key);
  for (std::size_t i = 0; i + 2 < values.size(); i += 3) out.push_back({values[i], values[i + 1], values[i + 2]});
  return out;
}

// Values of every named intermediate by name; those of temporal blocks, which are computed one after the other, joined in order.
class Seen {
 public:
  explicit Seen(Device& device) {
    device.set_observer([this](const std::string& name, std::span<const std::int64_t>, std::span<const float> values) {
      const std::size_t at = name.find(".frame");
      std::vector<float>& all = values_[at == std::string::npos ? name : name.substr(0, at) + name.substr(name.find('.', at + 1))];
      all.insert(all.end(), values.begin(), values.end());
    });
  }
  [[nodiscard]] std::vector<float> operator[](const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::vector<float>{} : found->second;
  }

 private:
  std::map<std::string, std::vector<float>> values_;
};

// One case: our values for its keys, and which keys were compared.
class Case {
 public:
  Case(std::string name, const Models& models)
      : name_(std::move(name)), file_("text/" + name_ + ".safetensors"), models_(models), seen_(*models.device) {}

  void run() {
    VisionInputs inputs{models_.vision_config.pads, {}, {}};
    ASSERT_NO_FATAL_FAILURE(see(VisionModality::image, "image", "pixel_values", "image_grid_thw", inputs.images));
    ASSERT_NO_FATAL_FAILURE(see(VisionModality::video, "video", "pixel_values_videos", "video_grid_thw", inputs.videos));
    std::vector<std::int32_t> ids;
    for (const std::int64_t id : file_.i64("input_ids")) ids.push_back(static_cast<std::int32_t>(id));
    const auto positions = vision_positions(ids, inputs.pads, grids_of(file_, "image_grid_thw"), grids_of(file_, "video_grid_thw"));
    ASSERT_TRUE(positions.ok()) << positions.error().text();
    check_positions(*positions);
    const auto result = models_.text->encode(ids, *positions, inputs);
    ASSERT_TRUE(result.ok()) << result.error().text();
    check("inputs_embeds", seen_["text.embeddings"]);
    check("hidden.0", seen_["text.embeddings"]);
    for (int layer = 0; layer < models_.text->config().layers; ++layer)
      check(fmt::format("hidden.{}", layer + 1), seen_[fmt::format("text.layer{}.out", layer)]);
    check("final_hidden", *result);
    check("final_hidden_bf16", *result, kToleranceBf16);
    for (const std::string& key : file_.names()) EXPECT_TRUE(compared_.contains(key)) << name_ << ": nothing was compared with " << key;
  }

 private:
  void see(VisionModality modality, const std::string& word, const std::string& pixels, const std::string& grid_key, VisionRows& out) {
    if (!file_.has(pixels)) return;
    const auto rows = models_.tower->encode(modality, file_.f32(pixels), grids_of(file_, grid_key));
    ASSERT_TRUE(rows.ok()) << rows.error().text();
    out = *rows;
    const std::string scope = "vision." + word + ".";
    for (const char* name : {"patch_embed", "pos_embed"}) check(scope + name, seen_[scope + "embed." + name]);
    for (int i = 0; i < models_.vision_config.depth; ++i)
      check(fmt::format("{}block.{}", scope, i), seen_[fmt::format("{}block{}.out", scope, i)]);
    check(scope + "merged", out.merged);
    for (std::size_t i = 0; i < out.deepstack.size(); ++i) check(fmt::format("{}deepstack.{}", scope, i), out.deepstack[i]);
    compared_.insert({pixels, grid_key});
  }

  void check_positions(const std::vector<TokenPosition>& positions) {
    std::vector<std::int64_t> flat;
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (const TokenPosition& position : positions) flat.push_back(position[axis]);
    EXPECT_EQ(flat, file_.i64("position_ids")) << name_;
    compared_.insert({"input_ids", "position_ids"});
  }

  void check(const std::string& key, const std::vector<float>& ours, double tolerance = kTolerance) {
    if (!file_.has(key)) return;
    golden::expect_within(name_ + " " + key, golden::rel_l2(ours, file_.f32(key)), tolerance);
    compared_.insert(key);
  }

  std::string name_;
  golden::Tensors file_;
  const Models& models_;
  Seen seen_;
  std::set<std::string> compared_;
};

class GoldenVision : public ::testing::TestWithParam<bool> {};

TEST_P(GoldenVision, EveryTensorMatchesTheReference) {
  const auto models = load_models(GetParam());
  ASSERT_TRUE(models.ok()) << models.error().text();
  int cases = 0, with_vision = 0;
  for (const std::string& name : files_ending(".safetensors")) {
    const golden::Tensors file("text/" + name + ".safetensors");
    if (!file.has("input_ids")) continue;
    ++cases;
    with_vision += file.has("pixel_values") || file.has("pixel_values_videos");
    Case one(name, *models);
    ASSERT_NO_FATAL_FAILURE(one.run()) << name;
  }
  EXPECT_GT(cases, 0);
  EXPECT_GT(with_vision, 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenVision, ::testing::Bool(), [](const auto& kernels) { return kernels.param ? "fast" : "plain"; });

}  // namespace
}  // namespace tritium
