// The released model's bytes in every format against the sizes of published files (spec/weights.md §8, golden/weights/headers).
#include "pipeline/model_shape.h"

#include <gtest/gtest.h>

namespace tritium {
namespace {

const ModelPreset& preset(std::string_view name) {
  const ModelPreset* found = find_preset(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

std::uint64_t dit_file(std::string_view name) {
  const PartShape part = released_model_shape(preset(name), MatrixForm::packed).dit;
  return part.total().file + part.unread;
}
std::uint64_t text_file(std::string_view name) {
  const PartShape part = released_model_shape(preset(name), MatrixForm::packed).text;
  return part.total().file + part.unread;
}

// Data sections as their headers add up, without the text of markers: to the byte.
TEST(MemoryPreset, TransformersHaveTheBytesOfTheirFiles) {
  EXPECT_EQ(dit_file("bf16"), 66'280'430'144u);         // 13 official shards
  EXPECT_EQ(dit_file("int8"), 34'038'766'144u);         // 250 markers of 71 or 72 bytes besides
  EXPECT_EQ(dit_file("int8-pruned"), 20'970'269'792u);  // 200 of 72
  EXPECT_EQ(dit_file("nf4-pruned"), 10'483'663'152u);   // 208 descriptions
  EXPECT_EQ(dit_file("fp8-pruned"), 20'958'084'992u);   // 150 input scales and the markers besides
}

// Whole files: their headers of up to 250 kB come on top.
TEST(MemoryPreset, TransformersOfOtherFormatsAreWithinTheirHeaders) {
  for (const auto& [name, file] : {std::pair("bf16-pruned", 40'225'724'176ull),
                                   {"nf4", 17'162'138'303ull},
                                   {"q8_0", 21'437'786'208ull},
                                   {"q6_k", 16'586'784'864ull},
                                   {"q4_k", 11'420'663'904ull},
                                   {"q3_k", 8'759'328'864ull},
                                   {"q2_k", 6'724'190'304ull}}) {
    EXPECT_LE(dit_file(name), file) << name;
    EXPECT_GT(dit_file(name) + 250'000, file) << name;
  }
  EXPECT_NEAR(static_cast<double>(dit_file("w4a8-pruned")), 12.5e9, 0.05e9);
}

TEST(MemoryPreset, TextEncodersHaveTheBytesOfTheirFiles) {
  EXPECT_EQ(text_file("w4a8-pruned"), 15'686'891'864u);  // nvfp4_awq, without markers
  for (const auto& [name, file] :
       {std::pair("bf16", 51'506'295'256ull), {"int8", 27'141'342'152ull}, {"nf4", 15'324'775'807ull}, {"q4_k", 18'218'065'024ull}}) {
    EXPECT_LE(text_file(name), file) << name;
    EXPECT_GT(text_file(name) + 450'000, file) << name;
  }
}

TEST(MemoryPreset, PartsAreTheirBlocksAndTheRest) {
  for (const ModelPreset& each : model_presets())
    for (const MatrixForm form : {MatrixForm::packed, MatrixForm::blocks}) {
      const ModelShape model = released_model_shape(each, form);
      EXPECT_EQ(model.dit.units.size(), 50u) << each.name;
      EXPECT_EQ(model.text.units.size(), 50u) << each.name;
      EXPECT_TRUE(model.video.units.empty());
      EXPECT_EQ(model.dit_config.pruned(), each.pruned);
      std::uint64_t sum = model.dit.other.resident;
      for (const UnitBytes& unit : model.dit.units) sum += unit.resident;
      EXPECT_EQ(sum, model.dit.total().resident);
      EXPECT_EQ(model.dit.largest_unit(), model.dit.units.front().resident);
    }
  EXPECT_EQ(find_preset("no_such_format"), nullptr);
}

// spec/weights.md §5: on devices that multiply ggml's blocks, W4A8 takes as much as int8; what ggml knows keeps its size.
TEST(MemoryPreset, CodesWithoutBlocksOfTheirOwnGrowOnADevice) {
  const auto resident = [](std::string_view name, MatrixForm form) {
    return static_cast<double>(released_model_shape(preset(name), form).dit.total().resident);
  };
  EXPECT_NEAR(resident("w4a8-pruned", MatrixForm::blocks), resident("int8-pruned", MatrixForm::blocks), 1e7);
  EXPECT_NEAR(resident("int8-pruned", MatrixForm::blocks), 22.2e9, 0.3e9);
  EXPECT_NEAR(resident("int8-pruned", MatrixForm::packed), 21.0e9, 0.3e9);
  EXPECT_NEAR(resident("fp8-pruned", MatrixForm::blocks), resident("bf16-pruned", MatrixForm::blocks), 1e6);
  EXPECT_EQ(resident("q4_k", MatrixForm::blocks), resident("q4_k", MatrixForm::packed));
  EXPECT_EQ(resident("bf16", MatrixForm::blocks), resident("bf16", MatrixForm::packed));
}

}  // namespace
}  // namespace tritium
