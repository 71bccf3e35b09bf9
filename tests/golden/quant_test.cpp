// Every quantized format of golden/weights: weights in the original basis, integer grids, the integer path, rotation, embeddings.
#include "golden/quant_support.h"
#include "weights/quant/reference.h"
#include "weights/quant/rotation.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <set>

namespace tritium {
namespace {

using namespace quant_test;

// ---- the cases that consist of a model file and expected values ----------------------------------------------------------------

struct Layer {
  std::string tag, name;
};

// A case's own ref.safetensors with every tag in it, or what its "ref" names.
Reference expected_values(const std::string& name, const nlohmann::json& one) {
  if (one.contains("ref")) return parse_reference(one["ref"].get<std::string>());
  Reference out{name + "/ref.safetensors", {}};
  std::set<std::string> tags;
  for (const std::string& key : golden::Tensors("weights/" + out.file).names()) tags.insert(key.substr(0, key.find('.')));
  out.tags.assign(tags.begin(), tags.end());
  return out;
}

class LayerTest {
 public:
  LayerTest(const std::string& case_name, const Model& model, const golden::Tensors& ref, Layer layer)
      : what_(case_name + " " + layer.tag + " "),
        model_(model),
        ref_(ref),
        layer_(std::move(layer)),
        reader_(model.reader(layer_.name + ".weight")) {
    weight_ = decoded(reader_);
    if (const LogicalTensor* bias = model_.tensors.find(layer_.name + ".bias"); bias != nullptr)
      bias_ = model_.tensors.read_f32(*bias).value();
  }

  void run() {
    weights();
    products();
    if (has("acc")) integer_path();
    if (reader_.quant() && lossless_block_type(*reader_.quant())) blocks();
  }

 private:
  [[nodiscard]] bool has(const std::string& key) const { return ref_.has(layer_.tag + "." + key); }
  [[nodiscard]] std::vector<float> expected(const std::string& key) const { return ref_.f32(layer_.tag + "." + key); }
  [[nodiscard]] bool rotated() const { return reader_.quant() && reader_.quant()->rotation != 0; }
  void close(const std::string& key, std::span<const float> got, double tolerance = kTolerance) const {
    expect_close(what_ + key, got, expected(key), tolerance);
  }
  void equal(const std::string& key, std::span<const float> got) const { expect_equal(what_ + key, got, expected(key)); }

  void weights() {
    const bool nf4 = reader_.quant() && reader_.quant()->format == QuantFormat::nf4;
    if (has("w_dequant")) {
      EXPECT_EQ(ref_.shape(layer_.tag + ".w_dequant"), reader_.tensor().shape) << what_;
      nf4 ? equal("w_dequant", weight_) : close("w_dequant", weight_, rotated() ? kRotatedWeight : kTolerance);
    }
    if (rotated() && reader_.sides().group_offset.empty())
      expect_close(what_ + "w in double precision", weight_, rotated_in_double(reader_), 6e-8);
    if (has("absmax_f32")) equal("absmax_f32", reader_.sides().group_scale.values);
    if (has("w_dequant_f32")) unrounded_nf4();
    for (const char* key : {"w8_grid", "w_int4"})
      if (has(key)) equal(key, grid_of(reader_));
    if (has("scales_unswizzled")) {
      const auto& codes = reader_.sides().group_scale.codes;
      equal("scales_unswizzled", std::vector<float>(codes.begin(), codes.end()));
    }
    for (std::int64_t begin = 0; begin < reader_.rows(); begin += 37) {  // in pieces
      const std::int64_t end = std::min(begin + 37, reader_.rows());
      const auto part = decoded(reader_, begin, end);
      const auto from = weight_.begin() + begin * reader_.columns();
      EXPECT_TRUE(std::equal(part.begin(), part.end(), from)) << what_ << "rows from " << begin;
    }
  }

  void unrounded_nf4() {
    LogicalTensor unrounded = reader_.tensor();
    unrounded.quant->rounding = DType::f32;
    const auto reader = MatrixReader::open(model_.file.checkpoint(), unrounded);
    ASSERT_TRUE(reader.ok());
    equal("w_dequant_f32", decoded(*reader));
  }

  void products() {
    if (!has("x")) return;
    const auto x = expected("x");
    if (!has("x_scaled_bf16")) {
      if (has("y_dequant")) close("y_dequant", linear(x, weight_, bias_, reader_.columns()), rotated() ? kRotatedProduct : kTolerance);
      return;
    }
    // The reference rounds the scaled input; the factor is part of our weights instead.
    const std::vector<float>& factor = reader_.sides().column_factor;
    ASSERT_EQ(factor.size(), static_cast<std::size_t>(reader_.columns()));
    std::vector<float> scaled(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) scaled[i] = bf16_to_f32(f32_to_bf16(x[i] * factor[i % factor.size()]));
    equal("x_scaled_bf16", scaled);
    close("y_f32_scaling", linear(x, weight_, bias_, reader_.columns()));
    const auto encoder = BlockEncoder::create(reader_);
    ASSERT_TRUE(encoder.ok());
    close("y_dequant", linear(scaled, decoded_blocks(reader_, *encoder), bias_, reader_.columns()));
  }

  void integer_path() {
    const std::int64_t columns = reader_.columns(), rotation = reader_.quant()->rotation;
    std::vector<float> turned = expected("x");
    EXPECT_EQ(has("x_rot"), rotation != 0) << what_;
    if (rotation != 0) {
      rotate(turned, rotation);
      close("x_rot", turned);
    }
    const QuantizedRows theirs = quantize_rows(rotation != 0 ? expected("x_rot") : turned, columns);
    equal("x_scale", theirs.scale);
    equal("x_q", std::vector<float>(theirs.values.begin(), theirs.values.end()));
    own_quantization(quantize_rows(turned, columns), theirs);

    const auto grid = grid_of(reader_);
    const std::vector<std::int8_t> w(grid.begin(), grid.end());
    const auto x_q = expected("x_q");
    const auto acc = multiply_int8(std::vector<std::int8_t>(x_q.begin(), x_q.end()), w, columns);
    equal("acc", std::vector<float>(acc.begin(), acc.end()));
    close("y_int", scale_products(acc, theirs.scale, reader_.row_scales(), bias_));
  }

  // From our own rotation instead of the expected one: spec/weights.md §9, at most 0.2 % of the integers differ, by 1.
  void own_quantization(const QuantizedRows& ours, const QuantizedRows& theirs) {
    std::size_t different = 0;
    int worst = 0;
    for (std::size_t i = 0; i < ours.values.size(); ++i) {
      const int d = std::abs(int{ours.values[i]} - int{theirs.values[i]});
      different += d != 0;
      worst = std::max(worst, d);
    }
    EXPECT_LE(worst, 1) << what_;
    golden::expect_within(what_ + "x_q of our rotation, part that differs",
                          static_cast<double>(different) / static_cast<double>(ours.values.size()), 0.002);
  }

  // What the blocks mean is what was decoded, whatever the layer; their bytes are the subject of another test.
  void blocks() {
    const auto encoder = BlockEncoder::create(reader_);
    if (reader_.columns() % block_layout(*lossless_block_type(*reader_.quant())).values != 0) {
      EXPECT_FALSE(encoder.ok()) << what_;
      return;
    }
    ASSERT_TRUE(encoder.ok()) << encoder.error().text();
    auto values = decoded_blocks(reader_, *encoder);
    for (std::size_t i = 0; i < values.size() && !encoder->column_factor().empty(); ++i)
      values[i] *= encoder->column_factor()[i % encoder->column_factor().size()];
    if (encoder->exact())
      expect_close(what_ + "blocks", values, weight_, 2e-7);
    else
      expect_close(what_ + "blocks, rounded scales", values, weight_, 0x1p-11);
  }

  std::string what_;
  const Model& model_;
  const golden::Tensors& ref_;
  Layer layer_;
  MatrixReader reader_;
  std::vector<float> weight_, bias_;
};

TEST_F(GoldenQuant, EveryLayerOfEveryFormat) {
  const auto cases = golden::json("weights/cases.json");
  const auto tags = all_tags(cases);
  int layers = 0;
  for (const auto& [name, one] : cases.items()) {
    if (!std::filesystem::exists(golden::path("weights/" + name + "/model.safetensors"))) continue;
    const Model model(name + "/model.safetensors");
    EXPECT_TRUE(model.tensors.notices().empty()) << name << ": " << model.tensors.notices().front();
    const Reference expected = expected_values(name, one);
    const golden::Tensors ref("weights/" + expected.file);
    for (const std::string& tag : expected.tags) {
      ASSERT_TRUE(tags.contains(tag)) << name << ": no case says which layer '" << tag << "' is";
      LayerTest(name, model, ref, {tag, tags.at(tag)}).run();
      ++layers;
    }
    for (const auto& [layer, facts] : one["layers"].items()) {
      const LogicalTensor* tensor = model.tensors.find(layer + ".weight");
      ASSERT_NE(tensor, nullptr) << name << " " << layer;
      EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{facts["N"].get<std::int64_t>(), facts["K"].get<std::int64_t>()}))
          << name << " " << layer;
      const char* key = facts.contains("convrot_group")                               ? "convrot_group"
                        : tensor->quant && tensor->quant->format == QuantFormat::int8 ? "group"
                                                                                      : "";
      if (facts.contains(key)) { EXPECT_EQ(tensor->quant->rotation, facts[key].get<std::int64_t>()) << name << " " << layer; }
    }
  }
  EXPECT_GT(layers, 0);
}

TEST_F(GoldenQuant, Rotation) {
  const golden::Tensors ref("weights/hadamard/ref.safetensors");
  const auto v = ref.f32("v");
  int cases = 0;
  for (const std::string& key : ref.names()) {
    if (key.starts_with("v_rot")) {
      const std::int64_t group = std::stoll(key.substr(5));
      auto values = v;
      rotate(values, group);
      expect_close("hadamard " + key, values, ref.f32(key));
      rotate(values, group);
      expect_close("hadamard " + key + " twice", values, v);
      ++cases;
    } else if (key.starts_with("H")) {
      const std::size_t group = std::stoull(key.substr(1));
      std::vector<float> unit(group * group, 0.0f);
      for (std::size_t i = 0; i < group; ++i) unit[i * group + i] = 1;
      rotate(unit, static_cast<std::int64_t>(group));
      expect_equal("hadamard " + key, unit, ref.f32(key));
      ++cases;
    }
  }
  EXPECT_GT(cases, 0);
}

TEST_F(GoldenQuant, EmbeddingRows) {
  const golden::Tensors ref("weights/int8_embedding/ref.safetensors");
  int cases = 0;
  for (const std::string& key : ref.names()) {
    if (!key.ends_with(".rows")) continue;
    const std::string stem = key.substr(0, key.size() - 5);
    const Model model("int8_embedding/" + stem + ".safetensors");
    ASSERT_EQ(model.tensors.all().size(), 1u) << stem;
    const MatrixReader reader = model.reader(model.tensors.all().begin()->first);
    std::vector<float> rows;
    for (const std::int64_t id : ref.i64("ids")) {
      const auto row = decoded(reader, id, id + 1);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    expect_close("int8_embedding " + stem, rows, ref.f32(key),
                 reader.quant() && reader.quant()->rotation != 0 ? kRotatedWeight : kTolerance);
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

TEST_F(GoldenQuant, EightBitFloatTables) {
  const golden::Tensors ref("weights/fp8_tables/ref.safetensors");
  const std::vector<std::pair<std::string, DType>> tables = {
      {"e4m3fn", DType::f8_e4m3}, {"e5m2", DType::f8_e5m2}, {"e8m0", DType::f8_e8m0}};
  for (const auto& [key, type] : tables) {
    const auto expected = ref.f32(key);
    ASSERT_EQ(expected.size(), 256u);
    for (std::size_t code = 0; code < 256; ++code) {
      const float value = f8_values(type)[code];
      if (type == DType::f8_e8m0 && code == 0) continue;  // 2^-127 in general, 0 as a scale of mxfp8
      if (std::isnan(expected[code]))
        EXPECT_TRUE(std::isnan(value)) << key << " " << code;
      else
        EXPECT_EQ(value, expected[code]) << key << " " << code;
    }
  }
  // The tables the decoders build themselves, seen through the side values of one layer each.
  const auto cases = golden::json("weights/cases.json");
  for (const auto& [name, one] : cases.items()) {
    if (one["layers"].empty() || !std::filesystem::exists(golden::path("weights/" + name + "/model.safetensors"))) continue;
    const Model model(name + "/model.safetensors");
    for (const auto& [logical, tensor] : model.tensors.all()) {
      if (!tensor.quant) continue;
      const MatrixReader reader = model.reader(logical);
      if (tensor.quant->format == QuantFormat::nvfp4) expect_equal(name + " e2m1", reader.sides().table, ref.f32("e2m1"));
      if (tensor.quant->format == QuantFormat::nf4) expect_equal(name + " nf4", reader.sides().table, ref.f32("nf4"));
      if (tensor.quant->format == QuantFormat::mxfp8) { EXPECT_EQ(reader.sides().group_scale.table[0], ref.f32("e8m0")[0]); }
    }
  }
}

// Low-rank additions act on the input as it is, beside weights that are decoded to the same basis.
TEST_F(GoldenQuant, LoraBesideRotatedWeights) {
  const auto cases = golden::json("weights/cases.json");
  const auto& facts = cases["lora_on_int8"];
  const Reference base = parse_reference(facts["base"].get<std::string>());
  const std::string tag = base.tags.front(), layer = all_tags(cases).at(tag);
  const Model model(base.file), lora("lora_on_int8/lora.safetensors");
  const golden::Tensors ref("weights/lora_on_int8/ref.safetensors");
  const MatrixReader reader = model.reader(layer + ".weight"), a = lora.reader(layer + ".lora_A.weight"),
                     b = lora.reader(layer + ".lora_B.weight");
  const auto x = ref.f32(tag + ".x");
  const auto delta_of = [&](const std::vector<float>& input) {
    auto out = linear(linear(input, decoded(a), {}, a.columns()), decoded(b), {}, b.columns());
    const double factor = facts["strength"].get<double>() * facts["alpha"].get<double>() / facts["rank"].get<double>();
    for (float& v : out) v = static_cast<float>(v * factor);
    return out;
  };
  const auto delta = delta_of(x);
  expect_close("lora_on_int8 delta", delta, ref.f32(tag + ".delta"));
  auto y = linear(x, decoded(reader), model.tensors.read_f32(*model.tensors.find(layer + ".bias")).value(), reader.columns());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += delta[i];
  expect_close("lora_on_int8 y", y, ref.f32(tag + ".y_dequant_plus_lora"), kRotatedProduct);
  auto rotated = x;
  rotate(rotated, reader.quant()->rotation);
  expect_close("lora_on_int8 delta of the rotated input", delta_of(rotated), ref.f32(tag + ".delta_WRONG_rotated_x"));
  EXPECT_GT(golden::rel_l2(delta_of(rotated), delta), 0.1) << "the wrong delta must not pass for the right one";
}

}  // namespace
}  // namespace tritium
