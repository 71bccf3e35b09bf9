// LoRA files: dialects, scales, and what does not fit.
#include "lora_files.h"

#include <cmath>
#include <limits>

namespace tritium {
namespace {

using test::LoraFiles;
using test::LoraMaker;
using test::LoraStyle;
using Why = LoraSkip::Why;

const LoraSkip* find_skip(const LoraMatch& match, Why why) {
  for (const LoraSkip& skip : match.report.skipped)
    if (skip.why == why) return &skip;
  return nullptr;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// B11, B9, B13, B14: one adapter, every dialect.
TEST_F(LoraFiles, B11_B13_EveryDialectGivesTheSameMatrices) {
  const auto want = deltas(match(maker().make(LoraStyle::bare)));
  EXPECT_EQ(want.size(), targets.size());
  EXPECT_TRUE(want.contains("token_refiner.blocks.0.attn.qkv_proj"));
  for (const LoraStyle style : test::kLoraStyles) {
    const LoraMatch found = match(maker().make(style));
    EXPECT_LE(largest_difference(deltas(found), want), 1e-12) << test::style_name(style);
    EXPECT_EQ(found.report.matched, found.report.pairs) << test::style_name(style);
    EXPECT_EQ(found.report.layers, targets.size()) << test::style_name(style);
    EXPECT_TRUE(found.report.skipped.empty()) << test::style_name(style);
    EXPECT_EQ(found.bytes() > 0, true);
  }
}

TEST_F(LoraFiles, DialectsAreNamed) {
  const std::pair<LoraStyle, LoraDialect> expected[] = {
      {LoraStyle::diffusers, LoraDialect::diffusers}, {LoraStyle::diffusers_turbo, LoraDialect::diffusers},
      {LoraStyle::diffsynth, LoraDialect::diffsynth}, {LoraStyle::comfy, LoraDialect::comfy},
      {LoraStyle::bare, LoraDialect::bare},           {LoraStyle::double_prefix, LoraDialect::comfy},
      {LoraStyle::mangled, LoraDialect::comfy},       {LoraStyle::kohya, LoraDialect::kohya}};
  for (const auto& [style, dialect] : expected) {
    const LoraMatch found = match(maker().make(style));
    ASSERT_EQ(found.report.dialects.size(), 1u) << test::style_name(style);
    EXPECT_EQ(found.report.dialects.begin()->first, dialect) << test::style_name(style);
  }
}

// The order of rows matters: reading interleaved rows as plain ones gives other matrices.
TEST_F(LoraFiles, InterleavedRowsAreNotPlainOnes) {
  LoraMaker::Tensors plain;
  for (const auto& [name, tensor] : maker().make(LoraStyle::diffsynth)) {
    std::string key = name;
    key.erase(key.find(".default"), 8);
    plain[key] = tensor;
  }
  EXPECT_GT(largest_difference(deltas(match(plain)), deltas(match(maker().make(LoraStyle::bare)))), 0.5);
}

TEST_F(LoraFiles, MissingPartsOfQkvAddZero) {
  const auto all = maker().make(LoraStyle::diffusers);
  LoraMaker::Tensors only_k;
  for (const auto& [name, tensor] : all)
    if (contains(name, "to_k")) only_k[name] = tensor;
  const LoraMatch found = match(only_k);
  EXPECT_EQ(found.report.layers, 3u);
  const auto got = deltas(found), want = deltas(match(all));
  for (const auto& [name, values] : got) {
    const std::size_t third = values.size() / 3;
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], i / third == 1 ? want.at(name)[i] : 0.0, 1e-12) << name;
  }
}

TEST_F(LoraFiles, AlphaFromTensorsMetadataTableOrUser) {
  const auto bare = maker().make(LoraStyle::bare);
  const auto want = deltas(match(bare));
  const auto expect_scale = [&](const LoraMatch& found, double factor, LoraAlpha from) {
    EXPECT_LE(largest_difference(deltas(found), want, factor), 1e-6);
    for (const LoraScale& scale : found.report.scales) {
      EXPECT_DOUBLE_EQ(scale.value, factor);
      EXPECT_EQ(scale.from, from);
    }
  };
  expect_scale(match(bare), 1, LoraAlpha::none);
  // Rank 2; q, k and v fused have rank 6, which an alpha of the whole file does not mean.
  expect_scale(match(bare, {{"alpha", "0.5"}}), 0.25, LoraAlpha::metadata);
  LoraMatchOptions options;
  options.table_alpha = 8;
  expect_scale(match(bare, {}, options), 4, LoraAlpha::table);
  expect_scale(match(bare, {{"alpha", "0.5"}}, options), 0.25, LoraAlpha::metadata);
  options.alpha = 1;
  expect_scale(match(bare, {{"alpha", "0.5"}}, options), 0.5, LoraAlpha::given);
  const auto kohya = maker().make(LoraStyle::kohya);
  expect_scale(match(kohya, {{"alpha", "0.5"}}), 1, LoraAlpha::tensor);
  expect_scale(match(kohya, {}, options), 0.5, LoraAlpha::given);
  auto half = kohya;
  for (auto& [name, tensor] : half)
    if (name.ends_with(".alpha")) tensor.values[0] /= 2;
  expect_scale(match(half), 0.5, LoraAlpha::tensor);
  EXPECT_TRUE(contains(lora_scale_text(match(half).report, 2), "strength 2 x alpha"));
}

TEST_F(LoraFiles, SeparateAlphasOfQkvAreFolded) {
  auto tensors = maker().make(LoraStyle::diffusers);
  const auto want = deltas(match(tensors));
  const std::string layer = "transformer_blocks.1.attn.";
  tensors[layer + "to_q.alpha"] = {{}, {1}};
  tensors[layer + "to_v.alpha"] = {{1}, {8}};
  const LoraMatch found = match(tensors);
  const auto got = deltas(found);
  EXPECT_EQ(found.report.scales.size(), 3u);
  const std::string name = "blocks.1.attn.qkv_proj";
  const double factors[] = {0.5, 1, 4};
  for (std::size_t i = 0; i < got.at(name).size(); ++i)
    EXPECT_NEAR(got.at(name)[i], factors[i / (got.at(name).size() / 3)] * want.at(name)[i], 1e-6);
  EXPECT_EQ(got.at("blocks.0.attn.qkv_proj"), want.at("blocks.0.attn.qkv_proj"));
}

TEST_F(LoraFiles, BadAlphasAreRefused) {
  const auto bare = maker().make(LoraStyle::bare);
  for (const char* text : {"", "eight", "-1", "0", "nan", "inf", "8 or 16"})
    EXPECT_TRUE(contains(refusal(bare, {{"alpha", text}}).message, "alpha")) << text;
  LoraMatchOptions options;
  options.alpha = -2;
  const Error given = refusal(bare, {}, options);
  EXPECT_EQ(given.code, ErrorCode::usage);
  EXPECT_EQ(given.field, "lora_alpha");
  auto kohya = maker().make(LoraStyle::kohya);
  kohya["lora_unet_blocks_0_mlp_fc1.alpha"] = {{2}, {1, 2}};
  EXPECT_TRUE(contains(refusal(kohya).message, "lora_unet_blocks_0_mlp_fc1.alpha"));
  kohya["lora_unet_blocks_0_mlp_fc1.alpha"] = {{}, {std::numeric_limits<float>::quiet_NaN()}};
  EXPECT_TRUE(contains(refusal(kohya).message, "not a number"));
}

// What a converter made of qkv_proj: underscores that became dots.
TEST_F(LoraFiles, B14_MangledNamesAreRecognised) {
  auto tensors = maker().make(LoraStyle::bare);
  const std::size_t all = match(tensors).report.matched;
  for (const char* factor : {"lora_A", "lora_B"}) {
    auto node = tensors.extract(std::string("blocks.0.attn.qkv_proj.") + factor + ".weight");
    ASSERT_FALSE(node.empty());
    node.key() = std::string("blocks.0.attn.qkv.proj.") + factor + ".weight";
    tensors.insert(std::move(node));
  }
  const LoraMatch found = match(tensors);
  EXPECT_EQ(found.report.matched, all);
  EXPECT_TRUE(found.report.skipped.empty());
}

TEST_F(LoraFiles, WhatDoesNotFitIsListedWithItsReason) {
  auto tensors = maker().make(LoraStyle::bare);
  tensors["blocks.7.mlp.fc1.lora_A.weight"] = {{2, 6}, std::vector<float>(12)};
  tensors["blocks.7.mlp.fc1.lora_B.weight"] = {{10, 2}, std::vector<float>(20)};
  tensors["something.else"] = {{3}, {1, 2, 3}};
  tensors["blocks.0.mlp.fc1.diff_b"] = {{1}, {1}};
  tensors["blocks.0.mlp.fc2.lora_A.weight"] = {{2, 4}, std::vector<float>(8)};  // the layer takes 5
  tensors.erase("blocks.1.mlp.fc2.lora_B.weight");
  tensors["blocks.1.mlp.fc1.lora_A.weight"].values[3] = std::numeric_limits<float>::quiet_NaN();
  LoraMatch found = match(tensors);
  ASSERT_TRUE(drop_not_finite(found).ok());
  EXPECT_EQ(found.report.matched, targets.size() - 3);
  EXPECT_EQ(found.report.layers, targets.size() - 3);
  ASSERT_NE(find_skip(found, Why::wrong_shape), nullptr);
  EXPECT_EQ(find_skip(found, Why::wrong_shape)->key, "blocks.0.mlp.fc2");
  EXPECT_EQ(find_skip(found, Why::wrong_shape)->detail, "A is [2, 4], B is [6, 2]; the layer is [6, 5]");
  ASSERT_NE(find_skip(found, Why::incomplete), nullptr);
  EXPECT_TRUE(contains(find_skip(found, Why::incomplete)->detail, "factor B"));
  ASSERT_NE(find_skip(found, Why::not_finite), nullptr);
  EXPECT_EQ(find_skip(found, Why::not_finite)->key, "blocks.1.mlp.fc1.lora_A.weight");
  const auto lines = lora_report_lines(found.report, "a", 1);
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  for (const char* key :
       {"blocks.7.mlp.fc1", "something.else", "blocks.0.mlp.fc1.diff_b", "blocks.0.mlp.fc2", "blocks.1.mlp.fc2", "[2, 4]", "not finite"})
    EXPECT_TRUE(contains(all, key)) << key << " in\n" << all;
}

TEST_F(LoraFiles, NothingThatFitsIsAnErrorWithBothSides) {
  LoraMaker other = maker();
  other.targets = {{"layers.0.self_attn.q_proj", 4, 4, LoraTarget::Rows::plain, 0, 0, false}};
  const Error error = refusal(other.make(LoraStyle::comfy));
  EXPECT_EQ(error.code, ErrorCode::model);
  EXPECT_TRUE(contains(error.message, "diffusion_model.layers.0.self_attn.q_proj")) << error.text();
  EXPECT_TRUE(contains(error.message, "token_refiner.blocks.0.attn.qkv_proj")) << error.text();
  // Right names, all shapes wrong.
  other = maker();
  for (LoraTarget& target : other.targets) target.in += 1;
  EXPECT_TRUE(contains(refusal(other.make(LoraStyle::bare)).message, "the layer is ["));
}

TEST_F(LoraFiles, OtherFilesAreRefusedByWhatTheyAre) {
  const LoraMaker::Tensor one{{1}, {1}};
  const std::pair<LoraMaker::Tensors, const char*> files[] = {
      {{{"blocks.0.attn.qkv_proj.weight", one}, {"video_patch_proj.weight", one}}, "full checkpoint"},
      {{{"transformer_blocks.0.attn.to_q.weight", one}}, "full checkpoint"},
      {{{"blocks.0.mlp.fc1.lokr_w1", one}}, "LoKr"},
      {{{"blocks.0.mlp.fc1.hada_w1_a", one}}, "LoHa"},
      {{{"blocks.0.mlp.fc1.lora_A.weight", one}, {"blocks.0.mlp.fc1.dora_scale", one}}, "DoRA"},
      {{{"blocks.0.mlp.fc1.lora_A.weight", one}, {"blocks.0.mlp.fc1.lora_magnitude_vector", one}}, "DoRA"},
      {{{"blocks.0.mlp.fc1.lora_mid.weight", one}}, "LoCon"},
      {{{"blocks.0.mlp.fc1.oft_blocks", one}}, "OFT"},
      {{{"blocks.0.mlp.fc1.diff", one}}, "full differences"},
      {{{"hello", one}}, "hello"},
      {{}, "not a LoRA"}};
  for (const auto& [tensors, what] : files) {
    const Error error = refusal(tensors);
    EXPECT_EQ(error.code, ErrorCode::model) << what;
    EXPECT_TRUE(contains(error.message, what)) << error.text();
    EXPECT_TRUE(contains(error.message, "a.safetensors")) << error.text();
  }
}

TEST_F(LoraFiles, TwoPairsForOneLayerAreRefused) {
  auto tensors = maker().make(LoraStyle::bare);
  tensors["diffusion_model.blocks.0.mlp.fc1.lora_A.weight"] = tensors["blocks.0.mlp.fc1.lora_A.weight"];
  tensors["diffusion_model.blocks.0.mlp.fc1.lora_B.weight"] = tensors["blocks.0.mlp.fc1.lora_B.weight"];
  EXPECT_TRUE(contains(refusal(tensors).message, "two pairs for the layer 'blocks.0.mlp.fc1'"));
  tensors = maker().make(LoraStyle::bare);
  for (const auto& [name, tensor] : maker().make(LoraStyle::diffusers))
    if (contains(name, "blocks.0.attn.to_v")) tensors[name] = tensor;
  EXPECT_TRUE(contains(refusal(tensors).message, "attn.qkv_proj"));
  tensors = maker().make(LoraStyle::bare);
  tensors["blocks.0.mlp.fc1.lora_down.weight"] = tensors["blocks.0.mlp.fc1.lora_A.weight"];
  EXPECT_TRUE(contains(refusal(tensors).message, "two tensors for one factor"));
}

TEST_F(LoraFiles, HalfTypesAreRead) {
  // fp16 and bf16 of one value each, written by hand: a rank-1 pair for a layer of one input and output.
  targets = {{"blocks.0.mlp.fc2", 1, 1, LoraTarget::Rows::plain, 0, 0, false}};
  const std::pair<std::string, std::string> types[] = {{"F16", std::string("\x00\x3E\x00\xC0", 4)},    // 1.5, -2
                                                       {"BF16", std::string("\xC0\x3F\x00\xC0", 4)}};  // 1.5, -2
  for (const auto& [type, bytes] : types) {
    const std::string header = fmt::format(R"({{"blocks.0.mlp.fc2.lora_A.weight":{{"dtype":"{0}","shape":[1,1],"data_offsets":[0,2]}},)"
                                           R"("blocks.0.mlp.fc2.lora_B.weight":{{"dtype":"{0}","shape":[1,1],"data_offsets":[2,4]}}}})",
                                           type);
    std::string content(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) content[i] = static_cast<char>((header.size() >> (8 * i)) & 0xFF);
    const auto opened = LoraFile::open(folder_.write("half.safetensors", content + header + bytes));
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    const auto matched = match_lora(*opened, targets);
    ASSERT_TRUE(matched.ok()) << matched.error().text();
    EXPECT_EQ(deltas(*matched).at("blocks.0.mlp.fc2"), std::vector<double>{-3}) << type;
  }
}

TEST(LoraNames, KeysAreTakenApart) {
  const auto split = [](const char* key) { return split_lora_key(key); };
  EXPECT_EQ(split("a.b.lora_A.weight")->layer, "a.b");
  EXPECT_EQ(split("a.b.lora_B.default.weight")->role, LoraRole::up);
  EXPECT_TRUE(split("a.b.lora_B.default.weight")->default_infix);
  EXPECT_EQ(split("a.b.lora.down.weight")->role, LoraRole::down);
  EXPECT_EQ(split("a.b.lora_up")->role, LoraRole::up);
  EXPECT_EQ(split("a.alpha")->role, LoraRole::alpha);
  for (const char* key : {"", ".alpha", ".lora_A.weight", "lora_A.weight", "a.weight", "a.lora_A.other.weight", "a.lora_A.bias"})
    EXPECT_FALSE(split(key).has_value()) << key;
}

TEST(LoraNames, ANameThatTwoLayersClaimIsNobodys) {
  const LoraTarget first{"a.b_c", 1, 1, LoraTarget::Rows::plain, 0, 0, false}, second{"a_b.c", 1, 1, LoraTarget::Rows::plain, 0, 0, false};
  const LoraTarget both[] = {first, second};
  const LoraNames names(both);
  EXPECT_EQ(names.find({"a.b_c", LoraRole::down, false})->target, 0u);
  EXPECT_EQ(names.find({"a_b.c", LoraRole::down, false})->target, 1u);
  EXPECT_FALSE(names.find({"lora_unet_a_b_c", LoraRole::down, false}).has_value());
  EXPECT_FALSE(names.find({"a_b_c", LoraRole::down, false}).has_value());
}

}  // namespace
}  // namespace tritium
