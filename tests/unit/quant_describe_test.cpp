// How files say that a layer is quantized: order of lookup, options and defaults. B4: field case of the loader.
#include "unit/quant_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tritium {
namespace {

using test::expect_refused;
using test::marked;
using test::OpenedFile;
using test::QuantFile;
using test::refusal;
using test::with_metadata;

// The description of "l.weight"; the test fails when there is none.
QuantDescription described(const QuantFile& file, const std::string& name = "l.weight") {
  const OpenedFile opened(file);
  EXPECT_TRUE(opened.logical) << opened.error;
  if (!opened.logical) return {};
  const LogicalTensor* tensor = opened.logical->find(name);
  EXPECT_TRUE(tensor != nullptr && tensor->quant) << name;
  return tensor != nullptr && tensor->quant ? *tensor->quant : QuantDescription{};
}

TEST(QuantLookup, MarkerComesBeforeMetadata) {
  QuantFile file = with_metadata(R"({"layers":{"l":"nvfp4"}})");
  file.add_text("l.comfy_quant", R"({"format":"int8_tensorwise"})");
  const QuantDescription quant = described(file);
  EXPECT_EQ(quant.format, QuantFormat::int8);
  EXPECT_EQ(quant.described_by, DescribedBy::marker);
  file.metadata["_quantization_metadata"] = R"({"layers":{"l":{"format":7}}})";  // not needed, not an error
  EXPECT_EQ(described(file).format, QuantFormat::int8);
}

TEST(QuantLookup, MetadataNamesLayersWithAndWithoutPrefix) {
  for (const char* stored : {"", "diffusion_model.", "model.diffusion_model."})
    for (const char* named : {"", "diffusion_model.", "model.diffusion_model."}) {
      const QuantFile file =
          with_metadata(fmt::format(R"({{"layers":{{"{}a.b":{{"format":"int8_tensorwise"}}}}}})", named), std::string(stored) + "a.b");
      const OpenedFile opened(file);
      ASSERT_TRUE(opened.logical) << opened.error;
      EXPECT_EQ(opened.logical->prefix(), stored);
      const LogicalTensor* tensor = opened.logical->find("a.b.weight");
      ASSERT_NE(tensor, nullptr);
      ASSERT_TRUE(tensor->quant);
      EXPECT_EQ(tensor->quant->described_by, DescribedBy::metadata);
      EXPECT_EQ(opened.logical->all().size(), 1u);
    }
}

TEST(QuantLookup, OptionsMayBeNestedAndUnknownOnesAreIgnored) {
  const QuantDescription nested = described(
      marked(R"({"format":"int8_tensorwise","per_row":true,"num_experts":[1,{}],"params":{"convrot":true,"convrot_groupsize":16}})"));
  EXPECT_EQ(nested.rotation, 16);
  EXPECT_EQ(
      described(
          marked(R"({ "format" : "int8_tensorwise", "convrot": true, "convrot_groupsize": 64, "full_precision_matrix_mult": true } )"))
          .rotation,
      64);
  EXPECT_TRUE(described(marked(R"({"format":"int8_tensorwise","full_precision_matrix_mult":true})")).full_precision);
  EXPECT_EQ(described(marked(R"({"format":"int8_tensorwise","convrot":null,"params":null})")).rotation, 0);
  EXPECT_EQ(described(marked(R"({"format":"int8_tensorwise","convrot":false,"convrot_groupsize":7})")).rotation, 0);
  EXPECT_EQ(described(marked(R"({"format":"int8_tensorwise","convrot_groupsize":64})")).rotation, 0);
  EXPECT_EQ(described(marked(R"({"format":"int8_tensorwise","group_size":16,"params":{"group_size":16}})")).format, QuantFormat::int8);
}

TEST(QuantLookup, DefaultGroupsAreThoseOfTheFormat) {
  QuantFile file;
  file.add("l.weight", "I8", {2, 128}, std::string(256, '\1'));
  file.add_floats("l.weight_s_rel", {2, 16}, std::vector<float>(32, 1));
  file.add_floats("l.weight_s_channel", {2, 1}, {1, 1});
  file.add_text("l.comfy_quant", R"({"format":"asym_w4a8_int8","convrot":false})");
  const QuantDescription w4a8 = described(file);
  EXPECT_EQ(w4a8.format, QuantFormat::w4a8);
  EXPECT_EQ(w4a8.group, 16);
  EXPECT_EQ(w4a8.rotation, 256) << "implied, whatever 'convrot' says";

  QuantFile int8 = marked(R"({"format":"int8_tensorwise","convrot":true})");
  int8.add("l.weight", "I8", {4, 256}, std::string(1024, '\3'));
  EXPECT_EQ(described(int8).rotation, 256);
}

TEST(QuantLookup, B4_RotationGroupsDifferFromLayerToLayer) {
  QuantFile file;
  for (const std::int64_t group : {4, 16, 64}) {
    const std::string layer = fmt::format("blocks.{}", group);
    file.add(layer + ".weight", "I8", {4, 64}, std::string(256, '\3'));
    file.add_floats(layer + ".weight_scale", {4}, {1, 2, 3, 4});
    file.add_text(layer + ".comfy_quant", fmt::format(R"({{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":{}}})", group));
  }
  for (const std::int64_t group : {4, 16, 64}) EXPECT_EQ(described(file, fmt::format("blocks.{}.weight", group)).rotation, group);
  EXPECT_EQ(refusal(file), "");
  file.add_text("blocks.64.comfy_quant", R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":256})");
  expect_refused(file, {"blocks.64.weight", "256 does not divide its 64 columns"});
}

TEST(QuantLookup, LegacyFp8) {
  QuantFile file;
  file.add("model.diffusion_model.l.weight", "F8_E4M3", {2, 2}, "\x38\x38\x38\x38");
  file.add_floats("model.diffusion_model.l.scale_weight", {1}, {0.5f});
  file.add_floats("model.diffusion_model.l.scale_input", {}, {1});
  file.add("model.diffusion_model.l.bias", "F8_E4M3", {2}, "\x38\x38");  // a vector stays what it is
  file.add("model.diffusion_model.scaled_fp8", "F8_E4M3", {0}, "");
  EXPECT_EQ(described(file).described_by, DescribedBy::legacy_fp8);
  EXPECT_FALSE(described(file).full_precision);
  const OpenedFile opened(file);
  EXPECT_EQ(opened.logical->read_f32(*opened.logical->find("l.weight")).value(), (std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(opened.logical->all().size(), 2u);
  file.add("model.diffusion_model.scaled_fp8", "F8_E5M2", {2}, "ab");
  EXPECT_TRUE(described(file).full_precision);
  file.tensors.erase("model.diffusion_model.l.scale_weight");
  expect_refused(file, {"scaled_fp8", "missing"});
  file.add("model.diffusion_model.scaled_fp8", "U8", {2}, "ab");
  expect_refused(file, {"scaled_fp8", "must be F8_E4M3 or F8_E5M2"});
}

TEST(QuantLookup, WithoutADescriptionOnlyFloatsAreTaken) {
  for (const char* type : {"U8", "I8"}) {
    QuantFile file;
    file.add("l.weight", type, {4}, "abcd");
    expect_refused(file, {"l.weight", type, "without any description"});
    file = {};
    file.add("l.table", type, {4}, "abcd");  // not a weight
    EXPECT_EQ(refusal(file), "");
  }
  QuantFile plain;
  plain.add("l.weight", "F8_E5M2", {1, 2}, "\x3C\x40");
  plain.add("norm.weight", "F8_E4M3", {2}, "\x38\x40");
  EXPECT_EQ(described(plain).described_by, DescribedBy::dtype);
  const OpenedFile opened(plain);
  EXPECT_FALSE(opened.logical->find("norm.weight")->quant);
  EXPECT_EQ(opened.logical->read_f32(*opened.logical->find("norm.weight")).value(), (std::vector<float>{1, 2}));
  EXPECT_EQ(opened.logical->read_f32(*opened.logical->find("l.weight")).value(), (std::vector<float>{1, 2}));
}

TEST(QuantLookup, ForeignPackingsAreNamed) {
  QuantFile file;
  file.add("l.qweight", "I32", {1}, "abcd");
  expect_refused(file, {"l.qweight", "GPTQ"});
  file = {};
  file.add("l.weight", "U8", {2, 1}, "ab");
  file.add_text("l.weight.quant_state.bitsandbytes__fp4", "{}");
  expect_refused(file, {"bitsandbytes__fp4", "only nf4"});
}

TEST(QuantLookup, PrefixedAndBareNamesMustNotMeet) {
  QuantFile file;
  file.add_floats("a.weight", {1}, {1});
  file.add_floats("diffusion_model.a.weight", {1}, {2});
  expect_refused(file, {"with and without a prefix"});
}

TEST(QuantLookup, DescriptionsWithoutAWeightAreReported) {
  QuantFile file = marked(R"({"format":"int8_tensorwise"})");
  file.add_text("gone.comfy_quant", R"({"format":"int8_tensorwise"})");
  file.add_floats("lost.weight_scale", {1}, {1});
  file.metadata["_quantization_metadata"] = R"({"layers":{"absent":"magic"}})";
  const OpenedFile opened(file);
  ASSERT_TRUE(opened.logical) << opened.error;
  ASSERT_EQ(opened.logical->notices().size(), 3u);
  std::string all;
  for (const std::string& notice : opened.logical->notices()) all += notice + "\n";
  for (const char* name : {"gone.comfy_quant", "lost.weight_scale", "absent"}) EXPECT_NE(all.find(name), std::string::npos) << all;
}

}  // namespace
}  // namespace tritium
