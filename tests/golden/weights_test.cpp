// Container cases of golden/weights: malformed files are refused, odd but valid ones and every dtype are read exactly.
#include "support/golden.h"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>

namespace tritium {
namespace {

double number(const nlohmann::json& value) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    return text == "-inf" ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  return value.get<double>();
}

TEST(GoldenWeights, MalformedContainersAreRefusedWithAReason) {
  const auto index = golden::json("weights/bad_safetensors/index.json");
  for (const char* group : {"container", "either"}) {
    for (const auto& [file, why] : index[group].items()) {
      const auto opened = TensorFile::open(golden::path("weights/bad_safetensors/" + file));
      EXPECT_FALSE(opened.ok()) << file << ": " << why;
      if (!opened.ok()) {
        EXPECT_EQ(opened.error().code, ErrorCode::model);
        EXPECT_NE(opened.error().message.find(file), std::string::npos) << opened.error().text();
      }
    }
  }
  for (const auto& [file, why] : index["semantic"].items())
    EXPECT_TRUE(TensorFile::open(golden::path("weights/bad_safetensors/" + file)).ok()) << file << " is a valid container: " << why;
}

void expect_tensors(const std::string& relative, const nlohmann::json& tensors) {
  const golden::Tensors file(relative);
  EXPECT_EQ(file.names().size(), tensors.size()) << relative;
  for (const auto& [name, values] : tensors.items()) {
    const auto read = file.f64(name);
    ASSERT_EQ(read.size(), values.size()) << relative << " " << name;
    for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i], number(values[i])) << relative << " " << name;
  }
}

TEST(GoldenWeights, UnusualButValidFilesAreRead) {
  const auto reference = golden::json("weights/quirks_valid/ref.json");
  for (const auto& [stem, tensors] : reference.items()) expect_tensors("weights/quirks_valid/" + stem + ".safetensors", tensors);
}

TEST(GoldenWeights, EveryDtypeIsRead) { expect_tensors("weights/dtype_zoo/zoo.safetensors", golden::json("weights/dtype_zoo/ref.json")); }

TEST(GoldenWeights, ShardsAreJoined) {
  const auto opened = Checkpoint::open(golden::path("weights/sharded"));
  ASSERT_TRUE(opened.ok()) << opened.error().text();
  EXPECT_TRUE(opened->sharded());
  EXPECT_GT(opened->files().size(), 1u);
  int checked = 0;
  for (const std::string& name : opened->names()) {
    int block = -1;
    if (std::sscanf(name.c_str(), "blocks.%d.norm1.weight", &block) != 1) continue;
    const auto values = opened->read_f32(name);
    ASSERT_TRUE(values.ok());
    for (const float v : *values) EXPECT_EQ(v, static_cast<float>(block) + 0.5f) << name;
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace tritium
