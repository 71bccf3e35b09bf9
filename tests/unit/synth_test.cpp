// Synthetic weight files: what they hold in every format, and that they are the same however they are made.
#include "base/hash.h"
#include "base/system.h"
#include "model/dit/weights.h"
#include "pipeline/synth_tensors.h"
#include "support/build.h"
#include "unit/temp_folder.h"
#include "weights/dit_names.h"
#include "weights/synth/random.h"
#include "weights/synth/write.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

namespace fs = std::filesystem;

// Wide enough for every format's blocks.
DitConfig small_config(bool pruned) {
  DitConfig c;
  c.hidden = c.ffn = c.text_dim = 256;
  c.heads = 4;
  c.head_dim = 64;
  c.video_features = 96;
  c.audio_features = 32;
  c.time_dim = pruned ? 8 : 256;
  c.time_input = pruned ? 0 : 64;
  c.time_hidden = pruned ? 0 : 128;
  c.curve_points = pruned ? 1025 : 0;
  c.rope_frequencies = 8;
  c.layers = 2;
  c.refiner_layers = 1;
  return c;
}

SynthPart small_part(bool pruned) {
  SynthPart out;
  out.tensors = synth_dit(small_config(pruned));
  out.pruned = pruned;
  return out;
}

SynthOptions options_of(const std::string& format, std::uint64_t seed = 1, int threads = 2) {
  SynthOptions out;
  out.format = *target_format(format);
  out.container = out.format.block_type() ? Container::gguf : Container::safetensors;
  out.seed = seed;
  out.threads = threads;
  return out;
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};
Moments moments(const std::vector<float>& values) {
  Moments out;
  for (const float v : values) {
    out.mean += static_cast<double>(v) / static_cast<double>(values.size());
    out.largest = std::max(out.largest, std::abs(static_cast<double>(v)));
  }
  for (const float v : values) out.deviation += std::pow(static_cast<double>(v) - out.mean, 2) / static_cast<double>(values.size());
  out.deviation = std::sqrt(out.deviation);
  return out;
}

class SynthFormats : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  test::TempFolder folder_;
};

TEST_P(SynthFormats, OpensAndLoadsWithTheIntendedStatistics) {
  const auto& [format, pruned] = GetParam();
  const fs::path file = folder_.path() / "dit.bin";
  const auto written = write_synthetic_part(small_part(pruned), file, options_of(format));
  ASSERT_TRUE(written.ok()) << written.error().text();
  EXPECT_EQ(*written, fs::file_size(file));

  auto checkpoint = Checkpoint::open(file);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text();
  const auto dit = open_dit(std::make_shared<const Checkpoint>(std::move(*checkpoint)), false);
  ASSERT_TRUE(dit.ok()) << dit.error().text();
  const WeightPart& part = *dit->part;
  EXPECT_TRUE(part.tensors().notices().empty());

  const double wanted = 1 / std::sqrt(256.0);
  for (const auto& [name, gain] : {std::pair("blocks.1.attn.qkv_proj.weight", 1.0),
                                   {"blocks.0.mlp.fc1.weight", 1.0},
                                   {"blocks.0.mlp.fc2.weight", 0.5},
                                   {"condition_proj.weight", 1.0},
                                   {"blocks.1.adaln_proj.linear.weight", pruned ? 0.2 * std::sqrt(256.0 / 8) : 0.2}}) {
    const auto values = part.read_f32(name);
    ASSERT_TRUE(values.ok()) << values.error().text();
    const Moments m = moments(*values);
    EXPECT_NEAR(m.deviation / (gain * wanted), 1, 0.06) << name;
    EXPECT_LT(std::abs(m.mean), 0.1 * gain * wanted) << name;
    EXPECT_LT(m.largest, 8 * gain * wanted) << name;
  }
  const auto norm = part.read_f32("blocks.0.norm1.weight");
  ASSERT_TRUE(norm.ok());
  EXPECT_EQ(std::count_if(norm->begin(), norm->end(), [](float v) { return v > 5; }) <= 1, true);
  EXPECT_NEAR(moments(*norm).mean, 1, 0.1);

  const auto config = read_dit_config(part, {});
  ASSERT_TRUE(config.ok()) << config.error().text();
  const auto device = Device::open("CPU", 2);
  ASSERT_TRUE(device.ok());
  const DitShare whole{device->get(), config->layers, {}};
  const auto weights = load_dit_weights({&whole, 1}, dit->part, *config, {});
  EXPECT_TRUE(weights.ok()) << weights.error().text();
}

std::vector<std::string> formats() {
  std::vector<std::string> out = target_format_names();
  std::erase(out, "keep");
  return out;
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<std::string, bool>>& row) {
  std::string name = std::get<0>(row.param) + (std::get<1>(row.param) ? "_pruned" : "_full");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, SynthFormats, ::testing::Combine(::testing::ValuesIn(formats()), ::testing::Bool()), test_name);

TEST(Synth, TheSameBytesWhateverTheThreads) {
  const test::TempFolder folder;
  for (const char* format : {"f32", "int8-convrot", "w4a8", "nf4", "fp8", "q4_k"}) {
    std::vector<std::string> hashes;
    for (const auto& [seed, threads] : {std::pair(5, 1), {5, 7}, {6, 7}}) {
      const fs::path file = folder.path() / (std::string(format) + std::to_string(hashes.size()));
      const auto written = write_synthetic_part(small_part(false), file, options_of(format, static_cast<std::uint64_t>(seed), threads));
      ASSERT_TRUE(written.ok()) << written.error().text();
      const auto hash = sha256_file(file);
      ASSERT_TRUE(hash.ok());
      hashes.push_back(*hash);
    }
    EXPECT_EQ(hashes[0], hashes[1]) << format;
    EXPECT_NE(hashes[0], hashes[2]) << format;
  }
}

// Pieces are independent: any cut of an output gives the same bytes.
TEST(Synth, PiecesFitTogether) {
  for (const std::string format : {"f32", "bf16", "int8", "w4a8", "nf4", "fp8", "q8_0", "q6_k"}) {
    BlockPools pools;
    const auto filler = SynthFiller::create({"a.weight", {64, 256}, *target_format(format), format == "w4a8" ? 256 : 0, false},
                                            {0, 0.1f, 0, 0, {}}, 3, pools);
    ASSERT_TRUE(filler.ok()) << filler.error().text();
    for (std::size_t output = 0; output < filler->outputs().size(); ++output) {
      const TensorDeclaration& tensor = filler->outputs()[output];
      std::vector<std::uint8_t> whole(*stored_bytes(tensor.dtype, tensor.shape)), pieces(whole.size());
      ASSERT_TRUE(filler->fill(output, 0, whole).ok());
      for (std::uint64_t first = 0; first < whole.size(); first += filler->step(output)) {
        const std::uint64_t count = std::min<std::uint64_t>(filler->step(output), whole.size() - first);
        ASSERT_TRUE(filler->fill(output, first, std::span(pieces).subspan(first, count)).ok());
      }
      EXPECT_EQ(whole, pieces) << format << " " << tensor.name;
    }
  }
}

TEST(Synth, MemoryDoesNotGrowWithTheFile) {
  const test::TempFolder folder;
  SynthPart part;
  part.tensors.push_back({"blocks.0.mlp.fc1.weight", {8192, 16384}, {0, 0.01f, 0, 0, {}}, DType::bf16});
  const std::uint64_t before = peak_resident_bytes();
  const auto written = write_synthetic_part(part, folder.path() / "big.safetensors", options_of("bf16"));
  ASSERT_TRUE(written.ok()) << written.error().text();
  EXPECT_GT(*written, 256u << 20);
  const std::uint64_t kept = test::sanitizer_holds_memory() ? 300u << 20 : 0;  // what has been freed
  EXPECT_LT(peak_resident_bytes() - before, (32u << 20) + kept);
}

TEST(Synth, AnExistingFileStays) {
  const test::TempFolder folder;
  const fs::path file = folder.write("dit.safetensors", "mine");
  const auto written = write_synthetic_part(small_part(false), file, options_of("bf16"));
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, ErrorCode::usage);
  EXPECT_EQ(fs::file_size(file), 4u);
}

TEST(Synth, QuantilesAreANormalDistribution) {
  const std::vector<float> q = normal_quantiles(4096);
  EXPECT_TRUE(std::is_sorted(q.begin(), q.end()));
  const Moments m = moments(q);
  EXPECT_NEAR(m.mean, 0, 1e-6);
  EXPECT_NEAR(m.deviation, 1, 1e-5);
  EXPECT_NEAR(q[4096 * 3 / 4], 0.6745, 0.002);  // the upper quartile
}

}  // namespace
}  // namespace tritium
