// Models streamed block by block give the resident model's bits, whatever the budget, the format of the weights and the adapters.
#include "support/dit_golden.h"

#include "model/dit/lora.h"
#include "model/text/text_model.h"
#include "support/lora_maker.h"
#include "unit/temp_folder.h"
#include "weights/convert/convert.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <cstdlib>
#include <random>

namespace tritium {
namespace {

using Floats = std::vector<float>;

template <class T>
T require(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "golden residency: %s\n", result.error().text().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

Floats noise(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats out(static_cast<std::size_t>(count));
  for (float& v : out) v = normal(generator);
  return out;
}

// A few evaluations at different times, each from the outcome of the one before: errors would add up.
DitRows run_steps(const Dit& dit) {
  constexpr int kSteps = 3, kTextRows = 5;
  const DitConfig& c = dit.config();
  const VideoLatentShape video{static_cast<int>(c.video_features / 4), 2, 4, 4};
  const PackedLayout layout = require(make_layout({std::vector<Modality>(kTextRows, Modality::text), video, /*audio_latents=*/3, {}, {}}));
  std::vector<RowTimesteps> steps;
  for (int i = 0; i < kSteps; ++i) {
    const float time = static_cast<float>(i) / kSteps;
    steps.push_back(require(assign_timesteps(layout, time, 0.9f * time, {})));
  }
  DitRows x{noise(layout.target_video().rows * c.video_features, 1), noise(layout.target_audio().rows * c.audio_features, 2)};
  DitRun run = require(DitRun::begin(dit, layout, noise(kTextRows * c.text_dim, 3), {}, std::move(steps)));
  for (int i = 0; i < kSteps; ++i) {
    const DitRows v = require(run.evaluate(i, x));
    for (std::size_t k = 0; k < x.video.size(); ++k) x.video[k] += v.video[k] / kSteps;
    for (std::size_t k = 0; k < x.audio.size(); ++k) x.audio[k] += v.audio[k] / kSteps;
  }
  return x;
}

class Residency : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("TRITIUM_POISON", "1", 1), 0);  // what still reads a block that has gone, reads NaN
    device_ = require(Device::open("CPU", 2));
    device_->set_fast_kernels(GetParam());
  }
  void TearDown() override { unsetenv("TRITIUM_POISON"); }

  // From what one block at a time needs to everything.
  template <class Check>
  void with_every_budget(std::uint64_t least, std::uint64_t all, Check check) const {
    for (int i = 0; i <= 8; ++i) check(least + (all - least) * static_cast<std::uint64_t>(i) / 8);
    check(all + all / 8);
  }

  struct Model {
    std::string name;
    std::shared_ptr<const WeightPart> part;
    DitConfig config;
  };
  // Every layout of the tree, and conversions of the first to quantized formats.
  [[nodiscard]] std::vector<Model> models() const {
    std::vector<Model> out;
    const auto add = [&](const golden::DitFile& file) {
      auto part = golden::open_dit_part(file);
      const DitConfig config = require(read_dit_config(*part, file.config_json));
      out.push_back({file.stem, std::move(part), config});
    };
    for (const golden::DitFile& file : golden::dit_files()) add(file);
    const auto source = out.front().part;
    for (const auto& [format, container] : {std::pair("int8", Container::safetensors), {"q8_0", Container::gguf}}) {
      ConvertOptions options;
      options.format = *target_format(format);
      options.container = container;
      const auto path = folder_.path() / fmt::format("{}.{}", format, container == Container::gguf ? "gguf" : "safetensors");
      require(convert_part({PartKind::dit, source, convertible_names(PartKind::dit, *source), {}}, path, options));
      add({path.string(), DitLayout::plain, ""});
    }
    return out;
  }
  std::unique_ptr<Device> device_;
  test::TempFolder folder_;
};

void expect_same(const DitRows& a, const DitRows& b, const std::string& what) {
  EXPECT_EQ(a.video, b.video) << what;
  EXPECT_EQ(a.audio, b.audio) << what;
}

TEST_P(Residency, TransformersGiveTheSameBitsWithEveryBudget) {
  for (const Model& model : models()) {
    const MatrixPolicy policy = MatrixPrecision::f32;
    const auto resident = require(Dit::load(*device_, model.part, model.config, policy));
    ASSERT_FALSE(resident->streamed());
    const DitRows want = run_steps(*resident);
    const DitResidency bytes = require(dit_residency(*device_, model.part, model.config, policy));
    ASSERT_LT(bytes.least, bytes.all) << model.name;
    int streamed = 0;
    with_every_budget(bytes.least, bytes.all, [&](std::uint64_t budget) {
      SCOPED_TRACE(fmt::format("{} within {}", model.name, budget));
      const auto dit = require(Dit::load(*device_, model.part, model.config, policy, nullptr, {}, {budget}));
      EXPECT_EQ(dit->streamed(), budget < bytes.all);
      expect_same(run_steps(*dit), want, "first request");
      expect_same(run_steps(*dit), want, "second request");
      if (!dit->streamed()) return;
      ++streamed;
      const DitShard& shard = dit->weights().shards.front();
      EXPECT_LE(shard.block_store->facts().resident_bytes + shard.modulation_store->facts().resident_bytes, budget);
    });
    EXPECT_GE(streamed, 3);
    const auto below = Dit::load(*device_, model.part, model.config, policy, nullptr, {}, {bytes.least - 1});
    ASSERT_FALSE(below.ok());
    EXPECT_EQ(below.error().code, ErrorCode::does_not_fit);
    std::printf("%s: %d streamed budgets from %llu of %llu bytes, 0 bits different\n", model.name.c_str(), streamed,
                static_cast<unsigned long long>(bytes.least), static_cast<unsigned long long>(bytes.all));
  }
}

TEST_P(Residency, AdaptersWorkOnStreamedBlocks) {
  for (const Model& model : models()) {
    test::LoraMaker maker;
    maker.targets = dit_lora_targets(model.config);
    const auto path = folder_.path() / "lora.safetensors";
    maker.write(path, test::LoraStyle::bare);
    const auto match =
        std::make_shared<const LoraMatch>(require(match_lora(require(LoraFile::open(path)), dit_lora_targets(model.config), {})));
    const LoraUse uses[] = {{match, 0.8}};
    const auto resident = require(Dit::load(*device_, model.part, model.config, MatrixPrecision::f32));
    const DitRows base = run_steps(*resident);
    DitRows want;
    {
      const DitAdapters adapters = require(DitAdapters::attach(*resident, uses));
      want = run_steps(*resident);
    }
    EXPECT_NE(want.video, base.video) << model.name;
    const DitResidency bytes = require(dit_residency(*device_, model.part, model.config, MatrixPrecision::f32));
    for (const std::uint64_t budget : {bytes.least, (bytes.least + bytes.all) / 2}) {
      const auto dit = require(Dit::load(*device_, model.part, model.config, MatrixPrecision::f32, nullptr, {}, {budget}));
      ASSERT_TRUE(dit->streamed());
      {
        const DitAdapters adapters = require(DitAdapters::attach(*dit, uses));
        expect_same(run_steps(*dit), want, model.name + " with adapters");
      }
      expect_same(run_steps(*dit), base, model.name + " without them again");
    }
  }
}

TEST_P(Residency, TextEncodersGiveTheSameBitsWithEveryBudget) {
  const auto config = require(parse_text_config(golden::json("text/tiny_qwen3vl.config.json").dump()));
  const auto part = require(WeightPart::open(golden::path("text/tiny_qwen3vl.safetensors")));
  std::vector<std::int32_t> ids;
  std::vector<std::array<std::int32_t, 3>> positions;
  for (std::int32_t i = 0; i < 9; ++i) {
    ids.push_back((7 * i + 3) % static_cast<std::int32_t>(config.vocabulary));
    positions.push_back({i, i, i});
  }
  const TextModel resident = require(TextModel::load(*device_, part, config, MatrixPrecision::f32));
  const Floats want = require(resident.encode(ids, positions));
  const std::uint64_t all = require(TextModel::weight_bytes(*part, config, MatrixPrecision::f32)),
                      least = require(TextModel::least_bytes(*device_, part, config, MatrixPrecision::f32));
  with_every_budget(least, all, [&](std::uint64_t budget) {
    const TextModel model = require(TextModel::load(*device_, part, config, MatrixPrecision::f32, nullptr, {}, {budget}));
    EXPECT_EQ(model.store() != nullptr, budget < all);
    EXPECT_EQ(require(model.encode(ids, positions)), want) << budget;
    EXPECT_EQ(require(model.encode(ids, positions)), want) << budget << ", again";
  });
  EXPECT_FALSE(TextModel::load(*device_, part, config, MatrixPrecision::f32, nullptr, {}, {least - 1}).ok());
}

INSTANTIATE_TEST_SUITE_P(Kernels, Residency, ::testing::Bool(), [](const auto& kernels) { return kernels.param ? "fast" : "plain"; });

}  // namespace
}  // namespace tritium
