// Golden: encoders against files made by the field's tools, and pruning against a pruned model.
#include "support/golden.h"
#include "unit/temp_folder.h"
#include "weights/convert/encoder.h"
#include "weights/convert/lora_merge.h"
#include "weights/convert/prune.h"
#include "weights/dit_names.h"
#include "weights/part.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>

namespace tritium {
namespace {

// The layers of cases.json that a case has: layer name -> tag of the source.
std::map<std::string, std::string> layers_of(const std::string& name) {
  std::map<std::string, std::string> out;
  const nlohmann::json cases = golden::json("weights/cases.json");
  for (const auto& [layer, facts] : cases.at(name).at("layers").items()) out[layer] = facts.value("tag", "");
  return out;
}

std::vector<std::uint8_t> stored(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo* info = checkpoint.find(name);
  if (info == nullptr) return {};
  std::vector<std::uint8_t> out(info->bytes);
  EXPECT_TRUE(checkpoint.read(*info, out).ok());
  return out;
}

// The source of a layer in F32, by its tag or, where there is none, its shape.
std::vector<float> source_of(const golden::Tensors& source, const std::string& layer, const std::string& tag) {
  for (const std::string& key : {tag + ".weight", tag + ".w", layer + ".weight"})
    if (source.has(key)) return source.f32(key);
  ADD_FAILURE() << "no source for " << layer;
  return {};
}

// Everything the encoder writes, by name.
std::map<std::string, std::vector<std::uint8_t>> encode(const MatrixSpec& spec, const std::vector<float>& values,
                                                        std::vector<float>& decoded) {
  std::map<std::string, std::vector<std::uint8_t>> out;
  auto created = MatrixEncoder::create(spec);
  EXPECT_TRUE(created.ok()) << created.error().text();
  if (!created.ok()) return out;
  MatrixEncoder& encoder = **created;
  const auto width = static_cast<std::size_t>(spec.columns());
  if (encoder.survey() == MatrixEncoder::Survey::all) encoder.observe(0, values);
  if (encoder.survey() == MatrixEncoder::Survey::sample)
    for (std::size_t r = 0; r * width < values.size(); ++r)
      encoder.observe(static_cast<std::int64_t>(r), std::span(values).subspan(r * width, width));
  encoder.prepare();
  decoded.resize(values.size());
  std::vector<EncodedPiece> pieces = encoder.constants();
  EXPECT_TRUE(encoder.encode(0, values, pieces, decoded).ok());
  for (EncodedPiece& piece : pieces) out[encoder.outputs()[piece.output].name] = std::move(piece.bytes);
  return out;
}

double differing(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  if (a.size() != b.size() || a.empty()) return 1;
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return static_cast<double>(count) / static_cast<double>(a.size());
}

class Reencoded : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!golden::has("weights/source_f32.safetensors")) GTEST_SKIP() << "this tree holds no sources of quantized files";
  }

  // Encodes every layer of a case again; compare(layer, stored file, description, encoded, decoded, source).
  template <class Compare>
  void each_layer(const std::string& name, const std::string& format, Compare compare) {
    const golden::Tensors source("weights/source_f32.safetensors"), model("weights/" + name + "/model.safetensors");
    const auto logical = LogicalTensors::open(model.checkpoint());
    ASSERT_TRUE(logical.ok()) << logical.error().text();
    for (const auto& [layer, tag] : layers_of(name)) {
      const LogicalTensor* tensor = logical->find(layer + ".weight");
      ASSERT_NE(tensor, nullptr) << layer;
      if (!tensor->quant) continue;
      const std::vector<float> values = source_of(source, layer, tag);
      ASSERT_EQ(static_cast<std::int64_t>(values.size()), tensor->elements()) << layer;
      std::vector<float> decoded;
      const auto made = encode({layer + ".weight", tensor->shape, *target_format(format), tensor->quant->rotation, false}, values, decoded);
      const auto theirs = logical->read_f32(*tensor);
      ASSERT_TRUE(theirs.ok());
      compare(layer, model.checkpoint(), *tensor, made, decoded, *theirs, values);
    }
  }
};

using Made = std::map<std::string, std::vector<std::uint8_t>>;

TEST_F(Reencoded, Int8GridIsTheStoredOne) {
  for (const std::string name : {"int8_convrot", "int8_rowwise"})
    each_layer(name, name == "int8_convrot" ? "int8-convrot" : "int8",
               [&](const std::string& layer, const Checkpoint& file, const LogicalTensor&, const Made& made, const auto&, const auto&,
                   const auto&) {
                 golden::expect_within(name + " " + layer + " entries that differ",
                                       differing(made.at(layer + ".weight"), stored(file, layer + ".weight")), 1e-3);
               });
}

TEST_F(Reencoded, Nf4IsTheStoredOne) {
  each_layer("nf4", "nf4",
             [&](const std::string& layer, const Checkpoint& file, const LogicalTensor&, const Made& made, const auto& decoded,
                 const auto& theirs, const auto& values) {
               golden::expect_within("nf4 " + layer + " bytes that differ",
                                     differing(made.at(layer + ".weight"), stored(file, layer + ".weight")), 2e-3);
               golden::expect_within("nf4 " + layer + " error beside theirs",
                                     golden::rel_l2(decoded, values) / golden::rel_l2(theirs, values), 1.001);
             });
}

TEST_F(Reencoded, W4a8IsAtLeastAsNear) {
  each_layer("w4a8", "w4a8",
             [&](const std::string& layer, const Checkpoint&, const LogicalTensor&, const Made&, const auto& decoded, const auto& theirs,
                 const auto& values) {
               fmt::print("w4a8 {}: ours {:.5f}, theirs {:.5f}\n", layer, golden::rel_l2(decoded, values), golden::rel_l2(theirs, values));
               golden::expect_within("w4a8 " + layer + " error beside theirs",
                                     golden::rel_l2(decoded, values) / golden::rel_l2(theirs, values), 1.0);
             });
}

TEST_F(Reencoded, Fp8IsAsNear) {
  each_layer("fp8_scaled", "fp8",
             [&](const std::string& layer, const Checkpoint&, const LogicalTensor& tensor, const Made&, const auto& decoded,
                 const auto& theirs, const auto& values) {
               if (tensor.quant->format != QuantFormat::fp8_e4m3) return;
               golden::expect_within("fp8 " + layer + " error beside theirs",
                                     golden::rel_l2(decoded, values) / golden::rel_l2(theirs, values), 1.01);
             });
}

TEST(EncoderTables, AreThoseOfTheFormats) {
  if (!golden::has("weights/fp8_tables/ref.safetensors")) GTEST_SKIP() << "this tree holds no tables";
  const golden::Tensors tables("weights/fp8_tables/ref.safetensors");
  const auto same = [&](const char* key, std::span<const float> mine) {
    const std::vector<float> theirs = tables.f32(key);
    ASSERT_EQ(mine.size(), theirs.size());
    double most = 0;
    for (std::size_t i = 0; i < mine.size(); ++i)
      most = std::max(most, std::fabs(static_cast<double>(mine[i]) - static_cast<double>(theirs[i])));
    golden::expect_within(key, most, 1e-7);
  };
  same("nf4", nf4_table());
  same("w4a8_fixed_codebook", w4a8_fixed_codebook());
  same("bnb_dynamic_map", nested_scale_map());
}

class Pruning : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!golden::has("dit/tiny_prune_aux.safetensors")) GTEST_SKIP() << "this tree holds no pruned model";
  }

  static TimeNetwork network() {
    const golden::Tensors full("dit/tiny_dit.safetensors");
    return {full.f32("time_embedder.proj_in.weight"), full.f32("time_embedder.proj_in.bias"), full.f32("time_embedder.proj_out.weight"),
            full.f32("time_embedder.proj_out.bias")};
  }
};

TEST_F(Pruning, DirectionsSpanTheSameSpace) {
  const golden::Tensors aux("dit/tiny_prune_aux.safetensors"), pruned("dit/tiny_dit_pruned.safetensors");
  const auto shape = pruned.shape("adaln_t_table");
  const auto curve = make_curve_table(network(), shape[1], 1, nullptr, shape[0]);
  ASSERT_TRUE(curve.ok()) << curve.error().text();
  const std::vector<double> theirs = aux.f64("basis");  // [width, rank]
  double most = 0;
  for (std::int64_t i = 0; i < curve->width; ++i)
    for (std::int64_t j = 0; j < curve->width; ++j) {
      double mine = 0, wanted = 0;
      for (std::int64_t r = 0; r < curve->rank; ++r) {
        mine += (*curve->basis)[static_cast<std::size_t>(r * curve->width + i)] *
                (*curve->basis)[static_cast<std::size_t>(r * curve->width + j)];
        wanted += theirs[static_cast<std::size_t>(i * curve->rank + r)] * theirs[static_cast<std::size_t>(j * curve->rank + r)];
      }
      most = std::max(most, std::fabs(mine - wanted));
    }
  golden::expect_within("prune projector", most, 1e-5);
  fmt::print("prune: error at points {:.2e}, between {:.2e}\n", curve->error_at_points, curve->error_between);
  EXPECT_LT(curve->error_at_points, 1e-3);
  EXPECT_LT(curve->error_between, 1e-3);
}

TEST_F(Pruning, CurveIsTheReferences) {
  const golden::Tensors aux("dit/tiny_prune_aux.safetensors"), pruned("dit/tiny_dit_pruned.safetensors");
  const std::vector<double> times = aux.f64("probe_t"), before_silu = aux.f64("probe_t_emb_full");
  const auto g = network().curve(times, 1, nullptr);
  ASSERT_TRUE(g.ok());
  double most = 0;
  for (std::size_t i = 0; i < g->size(); ++i) most = std::max(most, std::fabs((*g)[i] - before_silu[i] / (1 + std::exp(-before_silu[i]))));
  golden::expect_within("time embedding", most, 1e-5);
}

// Modulation weights times the curve: full and pruned agree.
TEST_F(Pruning, ModulationIsTheSame) {
  const golden::Tensors full("dit/tiny_dit.safetensors");
  const auto curve = make_curve_table(network(), kCurveRank, 1, nullptr);
  ASSERT_TRUE(curve.ok());
  const std::string name = "final_layer.adaln_proj.linear.weight";
  const std::vector<float> w = full.f32(name);
  const std::int64_t rows = full.shape(name)[0];
  const std::vector<double> times{0, 0.0004, 0.1234, 0.5, 0.9999, 1};
  const auto g = network().curve(times, 1, nullptr);
  ASSERT_TRUE(g.ok());
  double most = 0;
  for (std::size_t t = 0; t < times.size(); ++t) {
    const std::vector<float> c = table_at(*curve, times[t]);
    for (std::int64_t r = 0; r < rows; ++r) {
      double exact = 0, approximate = 0;
      for (std::int64_t k = 0; k < curve->width; ++k) {
        const double weight = static_cast<double>(w[static_cast<std::size_t>(r * curve->width + k)]);
        exact += weight * (*g)[t * static_cast<std::size_t>(curve->width) + static_cast<std::size_t>(k)];
        for (std::int64_t j = 0; j < curve->rank; ++j)
          approximate += weight * (*curve->basis)[static_cast<std::size_t>(j * curve->width + k)] *
                         static_cast<double>(c[static_cast<std::size_t>(j)]);
      }
      most = std::max(most, std::fabs(exact - approximate));
    }
  }
  golden::expect_within("pruned modulation", most, 1e-4);
}

// One adapter in the dialects of three programs, merged: the same weights. And each can be written in every other dialect.
class Merging : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!golden::has("dit/lora_comfy.safetensors")) GTEST_SKIP() << "this tree holds no adapters";
    auto checkpoint = Checkpoint::open(golden::path("dit/tiny128_dit.safetensors"));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text();
    auto shared = std::make_shared<const Checkpoint>(std::move(*checkpoint));
    auto tensors = LogicalTensors::open(*shared);
    ASSERT_TRUE(tensors.ok());
    Naming naming = dit_naming(*tensors, DitLayout::interleaved);
    base_ = WeightPart::wrap(shared, std::move(*tensors), std::move(naming));
  }

  // All adapted weights, one after the other.
  std::vector<float> merged(const std::filesystem::path& file) const {
    std::vector<std::string> notices;
    const auto delta = LoraDelta::create({{file, 1, std::nullopt}}, *base_, notices, nullptr);
    EXPECT_TRUE(delta.ok()) << delta.error().text();
    std::vector<float> out;
    if (!delta.ok()) return out;
    for (const LoraTarget& target : lora_targets(*base_)) {
      const auto rows = part_rows(*base_, target.name + ".weight", delta->get());
      EXPECT_TRUE(rows.ok());
      const auto values = read_all(**rows);
      EXPECT_TRUE(values.ok());
      out.insert(out.end(), values->begin(), values->end());
    }
    return out;
  }

  std::shared_ptr<const WeightPart> base_;
};

TEST_F(Merging, DialectsGiveTheSameWeights) {
  const std::vector<std::string> files{"dit/lora_turbo_diffusers.safetensors", "dit/lora_diffsynth.safetensors",
                                       "dit/lora_comfy.safetensors"};
  const std::vector<float> wanted = merged(golden::path(files.front()));
  std::vector<float> base;
  for (const LoraTarget& target : lora_targets(*base_)) {
    const auto values = base_->read_f32(target.name + ".weight");
    ASSERT_TRUE(values.ok());
    base.insert(base.end(), values->begin(), values->end());
  }
  EXPECT_GT(golden::rel_l2(wanted, base), 1e-3);
  for (const std::string& name : files) {
    golden::expect_within("merged " + name, golden::rel_l2(merged(golden::path(name)), wanted), 1e-6);
    const auto file = LoraFile::open(golden::path(name));
    ASSERT_TRUE(file.ok());
    const auto match = match_lora(*file, lora_targets(*base_));
    ASSERT_TRUE(match.ok());
    for (const char* dialect : {"diffusers", "comfy", "diffsynth", "kohya", "bare"}) {
      const test::TempFolder folder;
      const auto target = folder.path() / "lora.safetensors";
      ASSERT_TRUE(write_lora(*match, *lora_dialect_from_name(dialect), target, false).ok());
      golden::expect_within(name + " as " + dialect, golden::rel_l2(merged(target), wanted), 1e-6);
    }
  }
}

}  // namespace
}  // namespace tritium
