// Adapters folded into weights, and written in other dialects.
#include "unit/convert_support.h"
#include "weights/convert/lora_merge.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tritium::test {
namespace {

namespace fs = std::filesystem;

class ConvertLora : public ::testing::Test {
 protected:
  void SetUp() override {
    small_transformer().write(path("base.safetensors"));
    base_ = open_source(path("base.safetensors"));
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return folder_.path() / name; }

  // Pairs of rank 3 on the fused layers of a block, plain rows, bare names.
  void write_adapter(const fs::path& file, bool modulation = false) const {
    MatrixFile out;
    std::uint32_t seed = 77;
    const auto pair = [&](const std::string& layer) {
      const auto shape = base_.part->shape(layer + ".weight");
      out.add(layer + ".lora_A.weight", {3, (*shape)[1]}, random_matrix(3, (*shape)[1], seed++));
      out.add(layer + ".lora_B.weight", {(*shape)[0], 3}, random_matrix((*shape)[0], 3, seed++));
    };
    for (const char* layer : {"blocks.0.attn.qkv_proj", "blocks.0.mlp.fc1", "blocks.1.mlp.fc2", "token_refiner.blocks.0.attn.qkv_proj"})
      pair(layer);
    if (modulation) pair("blocks.0.adaln_proj.linear");
    out.write(file);
  }

  // B·A of every layer of an adapter, in the engine's row order.
  std::map<std::string, std::vector<float>> products(const fs::path& adapter) const {
    std::map<std::string, std::vector<float>> out;
    const auto file = LoraFile::open(adapter);
    EXPECT_TRUE(file.ok()) << file.error().text();
    if (!file.ok()) return out;
    const auto match = match_lora(*file, lora_targets(*base_.part));
    EXPECT_TRUE(match.ok()) << match.error().text();
    if (!match.ok()) return out;
    EXPECT_TRUE(match->report.skipped.empty());
    for (const LoraAdapter& a : match->adapters) {
      const auto factors = read_factors(*match, a);
      EXPECT_TRUE(factors.ok());
      const LoraTarget& target = match->targets[a.target];
      const auto in = static_cast<std::size_t>(target.in), rank = factors->down.size() / in;
      std::vector<float>& product = out[target.name];
      product.resize(static_cast<std::size_t>(target.out) * in);
      for (std::size_t r = 0; r < static_cast<std::size_t>(target.out); ++r)
        for (std::size_t j = 0; j < rank; ++j)
          for (std::size_t k = 0; k < in; ++k) product[r * in + k] += factors->up[r * rank + j] * factors->down[j * in + k];
    }
    return out;
  }

  TempFolder folder_;
  ConvertSource base_;
};

TEST_F(ConvertLora, MergedWeightsHaveTheProductAdded) {
  write_adapter(path("lora.safetensors"));
  std::vector<std::string> notices;
  const auto delta = LoraDelta::create({{path("lora.safetensors"), 0.5, std::nullopt}}, *base_.part, notices, nullptr);
  ASSERT_TRUE(delta.ok()) << delta.error().text();
  EXPECT_FALSE(notices.empty());
  ConvertOptions options = convert_to("keep", 3);
  options.delta = delta->get();
  ASSERT_TRUE(convert_part(base_, path("merged.safetensors"), options).ok());
  const auto merged = open_source(path("merged.safetensors"));
  const auto product = products(path("lora.safetensors"));
  ASSERT_EQ(product.size(), 4u);
  for (const std::string& name : base_.names) {
    const auto before = base_.part->read_f32(name), after = merged.part->read_f32(name);
    ASSERT_TRUE(before.ok() && after.ok());
    const auto found = name.ends_with(".weight") ? product.find(name.substr(0, name.size() - 7)) : product.end();
    for (std::size_t i = 0; i < before->size(); ++i) {
      const float wanted = (*before)[i] + (found == product.end() ? 0.0f : 0.5f * found->second[i]);
      ASSERT_NEAR((*after)[i], wanted, 1e-7) << name << " " << i;
    }
  }
  const auto& metadata = merged.part->checkpoint().files().front().header().metadata;
  EXPECT_EQ(nlohmann::json::parse(metadata.at("tritium.merged_loras"))[0]["file"], "lora.safetensors");

  // What is in it already is refused; what was merged stays known through a further conversion.
  const auto twice = LoraDelta::create({{path("lora.safetensors"), 1, std::nullopt}}, *merged.part, notices, nullptr);
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().code, ErrorCode::usage);
  EXPECT_TRUE(LoraDelta::create({{path("lora.safetensors"), 1, std::nullopt}}, *merged.part, notices, nullptr, true).ok());
}

// W·V + c·B·(A·V): merged into the full modulation first, then pruned.
TEST_F(ConvertLora, ModulationIsMergedBeforePruning) {
  write_adapter(path("lora.safetensors"), true);
  std::vector<std::string> notices;
  const auto delta = LoraDelta::create({{path("lora.safetensors"), 1, std::nullopt}}, *base_.part, notices, nullptr);
  ASSERT_TRUE(delta.ok()) << delta.error().text();
  ConvertOptions options = convert_to("keep");
  options.delta = delta->get();
  options.prune_rank = 8;
  const auto report = convert_part(base_, path("merged.safetensors"), options);
  ASSERT_TRUE(report.ok()) << report.error().text();
  const std::string name = "blocks.0.adaln_proj.linear";
  const auto w = base_.part->read_f32(name + ".weight"), got = open_source(path("merged.safetensors")).part->read_f32(name + ".weight");
  ASSERT_TRUE(w.ok() && got.ok());
  const std::vector<float> product = products(path("lora.safetensors")).at(name);
  for (std::size_t r = 0; r < w->size() / 64; r += 7)
    for (std::size_t j = 0; j < 8; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 64; ++k)
        sum += (static_cast<double>((*w)[r * 64 + k]) + static_cast<double>(product[r * 64 + k])) * (*report->curve->basis)[j * 64 + k];
      ASSERT_NEAR((*got)[r * 8 + j], sum, 1e-6);
    }
}

TEST_F(ConvertLora, EveryDialectHoldsTheSameAdapter) {
  write_adapter(path("lora.safetensors"));
  const auto wanted = products(path("lora.safetensors"));
  const auto file = LoraFile::open(path("lora.safetensors"));
  ASSERT_TRUE(file.ok());
  const auto match = match_lora(*file, lora_targets(*base_.part));
  ASSERT_TRUE(match.ok());
  for (const char* name : {"diffusers", "comfy", "diffsynth", "kohya", "bare"}) {
    const fs::path target = path(std::string(name) + ".safetensors");
    const auto done = write_lora(*match, *lora_dialect_from_name(name), target, false);
    ASSERT_TRUE(done.ok()) << done.error().text();
    const auto again = LoraFile::open(target);
    ASSERT_TRUE(again.ok()) << name << ": " << again.error().text();
    const auto dialects = match_lora(*again, lora_targets(*base_.part))->report.dialects;
    EXPECT_TRUE(dialects.contains(*lora_dialect_from_name(name))) << name;
    const auto got = products(target);
    ASSERT_EQ(got.size(), wanted.size()) << name;
    for (const auto& [layer, product] : wanted) EXPECT_LT(relative_error(got.at(layer), product), 1e-6) << name << " " << layer;
    EXPECT_FALSE(write_lora(*match, *lora_dialect_from_name(name), target, false).ok()) << "exists already";
  }
}

// A LoRA of the diffusers kind has q, k and v apart, and comes back so with its own rank.
TEST_F(ConvertLora, RankSurvivesFusingAndSplitting) {
  write_adapter(path("lora.safetensors"));
  const auto convert = [&](const fs::path& from, const char* to) {
    const auto file = LoraFile::open(from);
    const auto match = match_lora(*file, lora_targets(*base_.part));
    const fs::path target = path(from.stem().string() + "-" + to + ".safetensors");
    EXPECT_TRUE(write_lora(*match, *lora_dialect_from_name(to), target, false).ok());
    return target;
  };
  const fs::path split = convert(path("lora.safetensors"), "diffusers"), fused = convert(split, "comfy"),
                 back = convert(fused, "diffusers");
  const auto rank = [&](const fs::path& file, const std::string& key) { return Checkpoint::open(file)->find(key)->shape[0]; };
  EXPECT_EQ(rank(split, "transformer_blocks.0.attn.to_q.lora_A.default.weight"), 3);
  EXPECT_EQ(rank(fused, "diffusion_model.blocks.0.attn.qkv_proj.lora_A.weight"), 9);
  EXPECT_EQ(rank(back, "transformer_blocks.0.attn.to_q.lora_A.default.weight"), 3);
}

}  // namespace
}  // namespace tritium::test
