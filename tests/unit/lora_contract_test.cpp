// Step-distilled LoRAs: what they were made for, and values that contradict it.
#include "lora_files.h"

#include "weights/lora/contract.h"

namespace tritium {
namespace {

using test::LoraFiles;
using test::LoraStyle;

LoraSignature lightx2v() { return {312, {{128, 312}}, true, false}; }
LoraSignature lightx2v_fused() { return {208, {{128, 156}, {384, 52}}, false, false}; }
LoraSignature larryvrh() { return {259, {{16, 51}, {64, 208}}, false, true}; }

struct Expected {
  const char* name;
  int steps;
  double video_shift, audio_shift, alpha;
  const char* partition;
};

TEST(LoraContract, PublishedFiles) {
  const Expected files[] = {{"minimax_h3_fl2v_turbo_4step_v0.1.safetensors", 4, 12, 3, 8, "fl2va"},
                            {"minimax_h3_fl2v_turbo_8step_v1.0_comfyui_bf16.safetensors", 8, 12, 3, 8, "fl2va"},
                            {"MiniMax-H3-FL2V-Turbo-4step-v1.0.safetensors", 4, 6, 3, 128, "fl2va"},
                            {"minimax_h3_fl2v_turbo_4step_v1.1_768p.safetensors", 4, 6, 3, 128, "fl2va"},
                            {"minimax_h3_fl2v_turbo_8step_v1.0_768p.safetensors", 8, 6, 3, 128, "fl2va"},
                            {"minimax_h3_ref2v_turbo_4step_v0.1.safetensors", 4, 12, 3, 0, "ref2va"}};
  for (const Expected& e : files)
    for (const LoraSignature& signature : {lightx2v(), lightx2v_fused()}) {
      const auto c = find_contract(e.name, signature);
      ASSERT_TRUE(c.has_value()) << e.name;
      EXPECT_EQ(c->steps, e.steps) << e.name;
      EXPECT_EQ(c->video_shift, e.video_shift) << e.name;
      EXPECT_EQ(c->audio_shift, e.audio_shift) << e.name;
      EXPECT_EQ(c->alpha.value_or(0), e.alpha) << e.name;
      EXPECT_EQ(c->partition, e.partition) << e.name;
      EXPECT_EQ(c->reference_size_match, c->partition == "ref2va") << e.name;
    }
  const auto other = find_contract("whatever.safetensors", larryvrh());
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->min_steps, 4);
  EXPECT_EQ(other->max_steps, 8);
  EXPECT_FALSE(other->alpha.has_value());
}

TEST(LoraContract, NameAndContentBothHaveToFit) {
  EXPECT_FALSE(find_contract("minimax_h3_fl2v_turbo_4step_v0.1.safetensors", {10, {{16, 10}}, false, false}).has_value());
  EXPECT_FALSE(find_contract("style.safetensors", lightx2v()).has_value());
  EXPECT_NE(contract_hint("style.safetensors", lightx2v()).find("--steps"), std::string::npos);
  EXPECT_NE(contract_hint("my_turbo.safetensors", {10, {{16, 10}}, false, false}).find("'turbo'"), std::string::npos);
  EXPECT_TRUE(contract_hint("style.safetensors", {10, {{16, 10}}, false, false}).empty());
}

TEST(LoraContract, ContradictingWishesAreRefused) {
  const LoraContract c = *find_contract("fl2v_4step_v1.0", lightx2v());
  const auto refused = [&](ContractWishes w, const char* field, const char* value) {
    const auto checked = check_wishes("x.safetensors", c, w);
    ASSERT_FALSE(checked.ok()) << field;
    EXPECT_EQ(checked.error().code, ErrorCode::usage);
    EXPECT_EQ(checked.error().field, field);
    EXPECT_NE(checked.error().message.find(value), std::string::npos) << checked.error().text();
    EXPECT_NE(checked.error().message.find("x.safetensors"), std::string::npos) << checked.error().text();
    EXPECT_NE(checked.error().hint.find("--force"), std::string::npos) << checked.error().text();
    w.force = true;
    EXPECT_TRUE(check_wishes("x.safetensors", c, w).ok());
  };
  ContractWishes fine;
  EXPECT_TRUE(check_wishes("x", c, fine).ok());
  fine = {4, 6.0, 3.0, 128.0, true, "fl2va", false};
  EXPECT_TRUE(check_wishes("x", c, fine).ok());
  refused({.steps = 20}, "steps", "20");
  refused({.video_shift = 12.0}, "video_shift", "12");
  refused({.audio_shift = 5.0}, "audio_shift", "5");
  refused({.alpha = 8.0}, "lora_alpha", "8");
  refused({.partition = "ref2va"}, "lora", "ref2va");
  const LoraContract ref = *find_contract("ref2v_4step_v0.1", lightx2v());
  EXPECT_EQ(check_wishes("x", ref, {.official_reference_size = true}).error().field, "official_reference_size");
  const LoraContract range = *find_contract("x", larryvrh());
  EXPECT_TRUE(check_wishes("x", range, {.steps = 6}).ok());
  EXPECT_FALSE(check_wishes("x", range, {.steps = 3}).ok());
}

TEST(LoraContract, TwoThatDisagreeAreRefused) {
  const LoraContract a = *find_contract("fl2v_4step_v1.0", lightx2v()), b = *find_contract("fl2v_8step_v1.0", lightx2v());
  EXPECT_TRUE(check_agreement("a", a, "b", a).ok());
  const auto refused = check_agreement("a", a, "b", b);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("4 steps with shifts 6/3"), std::string::npos) << refused.error().text();
  EXPECT_NE(refused.error().message.find("8 steps with shifts 12/3"), std::string::npos) << refused.error().text();
}

TEST_F(LoraFiles, AFileCanStateItsContract) {
  LoraContract c{"mine", 3, 2, 5, 7, 2, 1.5, "ref2va", true};
  const auto stated = contract_of(*file(maker().make(LoraStyle::bare), {{kContractKey, contract_json(c)}}));
  ASSERT_TRUE(stated.ok() && stated->has_value());
  EXPECT_EQ(contract_json(**stated), contract_json(c));
  const auto none = contract_of(*file(maker().make(LoraStyle::bare)));
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  for (const char* text :
       {"", "{", "[]", "{}", R"({"steps":0,"video_shift":1,"audio_shift":1})", R"({"steps":"4","video_shift":1,"audio_shift":1})",
        R"({"steps":4,"video_shift":-1,"audio_shift":1})", R"({"steps":4,"video_shift":1,"audio_shift":1,"partition":"x"})"}) {
    const auto refused = contract_of(*file(maker().make(LoraStyle::bare), {{kContractKey, text}}));
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::model);
    EXPECT_EQ(refused.error().field, kContractKey);
  }
}

// B17
TEST_F(LoraFiles, B17_BasesWithSomethingFoldedIn) {
  const auto mark = [&](const std::string& name, const std::map<std::string, std::string>& metadata) {
    test::LoraMaker::write(path(name), {{"x", {{1}, {1}}}}, metadata);
    const auto opened = Checkpoint::open(path(name));
    EXPECT_TRUE(opened.ok()) << opened.error().text();
    return base_mark(*opened);
  };
  const BaseMark clean = mark("minimax_h3_fl2va.safetensors", {});
  EXPECT_TRUE(check_base("a_turbo.safetensors", true, clean).ok());
  const auto refused = [](const BaseMark& base, const std::string& file, bool distilled, const char* why) {
    const auto checked = check_base(file, distilled, base);
    ASSERT_FALSE(checked.ok()) << why;
    EXPECT_EQ(checked.error().code, ErrorCode::usage);
    EXPECT_NE(checked.error().text().find(why), std::string::npos) << checked.error().text();
    EXPECT_NE(checked.error().text().find("--force"), std::string::npos) << checked.error().text();
  };
  for (const char* name : {"h3_Turbo_int8.safetensors", "h3-4-step.safetensors", "h3_8step.safetensors", "h3_lightning.safetensors",
                           "h3_distilled.safetensors"})
    refused(mark(name, {}), "a.safetensors", true, name);
  EXPECT_TRUE(check_base("style.safetensors", false, mark("h3_turbo.safetensors", {})).ok());
  const BaseMark merged = mark("h3.safetensors", {{kMergedLorasKey, R"([{"file":"style.safetensors","strength":1},"other.safetensors"])"}});
  EXPECT_EQ(merged.merged, (std::vector<std::string>{"style.safetensors", "other.safetensors"}));
  refused(merged, "a.safetensors", true, "style.safetensors");
  refused(merged, "other.safetensors", false, "already");
  EXPECT_TRUE(check_base("third.safetensors", false, merged).ok());
  refused(mark("h3b.safetensors", {{kMergedLorasKey, R"(["fl2v_turbo.safetensors"])"}}), "a.safetensors", true, "fl2v_turbo");
  refused(mark("h3c.safetensors", {{kMergedLorasKey, "not json"}}), "a.safetensors", true, "unreadable");
}

}  // namespace
}  // namespace tritium
