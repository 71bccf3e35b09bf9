// Linear layers on quantized weights as the engine runs them: packed rows and ggml's blocks, against x·w_dequantᵀ + bias.
#include "device/params.h"
#include "golden/quant_support.h"
#include "ops/linear.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <set>

namespace tritium {
namespace {

using namespace quant_test;

struct Layer {
  std::string tag, name;
  std::vector<std::int64_t> shape;
};

class QuantLinear {
 public:
  QuantLinear(const std::string& case_name, std::shared_ptr<const WeightPart> part, const golden::Tensors& ref, Layer layer)
      : what_(case_name + " " + layer.tag),
        part_(std::move(part)),
        layer_(std::move(layer)),
        x_(ref.f32(layer_.tag + ".x")),
        expected_(ref.f32(layer_.tag + (ref.has(layer_.tag + ".y_f32_scaling") ? ".y_f32_scaling" : ".y_dequant"))) {
    if (ref.has(layer_.tag + ".y_int")) integers_ = ref.f32(layer_.tag + ".y_int");
    device_ = std::move(Device::open("CPU", 2)).value();
  }

  // Largest difference in units of the largest expected value, and relative L2.
  void run(const std::string& how, MatrixPolicy policy, bool kernels, double worst, double l2) const {
    run(how, policy, kernels, expected_, worst, l2);
  }
  void run(const std::string& how, MatrixPolicy policy, bool kernels, const std::vector<float>& expected, double worst, double l2) const {
    device_->set_fast_kernels(kernels);
    ParamLoader loader(*part_, "layer", policy);
    ops::Linear layer{loader.matrix(layer_.name + ".weight", layer_.shape[0], layer_.shape[1]), nullptr, nullptr, nullptr};
    if (part_->has(layer_.name + ".bias")) layer.bias = loader.tensor(layer_.name + ".bias", {layer_.shape[0]});
    const std::uint64_t declared = loader.bytes();
    const auto pool = loader.load(*device_);
    ASSERT_TRUE(pool.ok()) << what_ << ": " << pool.error().text();
    EXPECT_LE(pool->bytes(), declared) << what_;
    Graph graph(*device_, "test");
    const auto rows = static_cast<std::int64_t>(x_.size()) / layer_.shape[1];
    ggml_tensor* y = graph.output("y", ops::linear(graph, layer, graph.input("x", x_, {layer_.shape[1], rows})));
    const auto ran = graph.run();
    ASSERT_TRUE(ran.ok()) << what_ << ": " << ran.error().text();
    const std::vector<float> got = graph.read(y);
    double largest = 0;
    for (const float v : expected) largest = std::max(largest, std::abs(static_cast<double>(v)));
    const double error = golden::max_abs_diff(got, expected) / largest, relative = golden::rel_l2(got, expected);
    std::printf("golden quant linear %s, %s: largest error %.3g (tolerance %.3g), relative L2 %.3g\n", what_.c_str(), how.c_str(), error,
                worst, relative);
    EXPECT_LE(error, worst) << what_ << ", " << how;
    EXPECT_LE(relative, l2) << what_ << ", " << how;
  }

  // The reference's own arithmetic: integers that differ by one where rotated values lie between two (spec/weights.md §9.3).
  void run_integers() const {
    for (const bool kernels : {true, false}) {
      run("as integers", MatrixPrecision::int8, kernels, integers_, 2e-3, 1e-3);
      run("as integers, against exact activations", MatrixPrecision::int8, kernels, expected_, 1, 1.5e-2);  // golden/weights/README.md
    }
  }

  void run_all(bool rotated) const {
    constexpr double kAny = 1;
    run("packed, float32", MatrixPrecision::f32, true, kRotatedProduct, kRotatedProduct);
    run("packed, float32, plain", MatrixPrecision::f32, false, kRotatedProduct, kRotatedProduct);
    run("packed, bfloat16", MatrixPrecision::bf16, true, kAny, 5e-3);  // spec/weights.md §9.2
    if (rotated && !integers_.empty()) run_integers();
    run("blocks", {MatrixPrecision::f32, MatrixForm::blocks}, false, kAny, rotated ? 8e-3 : 2e-2);
  }

 private:
  std::string what_;
  std::shared_ptr<const WeightPart> part_;
  Layer layer_;
  std::vector<float> x_, expected_, integers_;  // integers_: as the reference multiplies them, or empty
  std::unique_ptr<Device> device_;
};

TEST_F(GoldenQuant, AdaptersBesideRotatedWeights) {
  const auto document = golden::json("weights/cases.json");
  const auto& facts = document["lora_on_int8"];
  const Reference base = parse_reference(facts["base"].get<std::string>());
  const std::string tag = base.tags.front(), name = all_tags(document).at(tag);
  const auto part = WeightPart::open(golden::path("weights/" + base.file)).value();
  const auto lora = WeightPart::open(golden::path("weights/lora_on_int8/lora.safetensors")).value();
  const golden::Tensors ref("weights/lora_on_int8/ref.safetensors");
  const auto shape = part->shape(name + ".weight").value();
  const auto rank = lora->shape(name + ".lora_A.weight").value()[0];
  const auto device = std::move(Device::open("CPU", 2)).value();
  ParamLoader loader(*part, "layer", MatrixPrecision::f32);
  ops::Linear layer{loader.matrix(name + ".weight", shape[0], shape[1]), loader.tensor(name + ".bias", {shape[0]}), nullptr, nullptr};
  const TensorPool weights = loader.load(*device).value();
  TensorPool adapters(2);
  layer.lora_down = adapters.add("down", GGML_TYPE_F32, {shape[1], rank});
  layer.lora_up = adapters.add("up", GGML_TYPE_F32, {rank, shape[0]});
  ASSERT_TRUE(adapters.allocate(*device, "adapters").ok());
  const double factor = facts["strength"].get<double>() * facts["alpha"].get<double>() / facts["rank"].get<double>();
  auto up = lora->read_f32(name + ".lora_B.weight").value();
  for (float& v : up) v = static_cast<float>(v * factor);
  upload(layer.lora_down, lora->read_f32(name + ".lora_A.weight").value());
  upload(layer.lora_up, up);
  const auto x = ref.f32(tag + ".x"), expected = ref.f32(tag + ".y_dequant_plus_lora");
  Graph graph(*device, "test");
  ggml_tensor* y =
      graph.output("y", ops::linear(graph, layer, graph.input("x", x, {shape[1], static_cast<std::int64_t>(x.size()) / shape[1]})));
  ASSERT_TRUE(graph.run().ok());
  expect_close("lora_on_int8 through the linear layer", graph.read(y), expected, kRotatedProduct);
}

TEST_F(GoldenQuant, LinearLayersOfEveryFormat) {
  const auto document = golden::json("weights/cases.json");
  const auto tags = all_tags(document);
  int layers = 0;
  std::set<std::string> formats;
  for (const auto& entry : std::filesystem::directory_iterator(golden::path("weights"))) {
    const std::string name = entry.path().filename().string();
    if (!golden::has("weights/" + name + "/model.safetensors") || !golden::has("weights/" + name + "/ref.safetensors")) continue;
    const golden::Tensors ref("weights/" + name + "/ref.safetensors");
    const auto part = WeightPart::open(golden::path("weights/" + name + "/model.safetensors"));
    ASSERT_TRUE(part.ok()) << name << ": " << part.error().text();
    for (const std::string& key : ref.names()) {
      if (!key.ends_with(".y_dequant")) continue;
      const std::string tag = key.substr(0, key.find('.')), layer = tags.contains(tag) ? tags.at(tag) : "";
      const PlacedTensor weight = (*part)->find(layer + ".weight");
      if (!weight.found() || weight.shape().size() != 2 || !ref.has(tag + ".x")) continue;
      const LogicalTensor& source = *weight.sources.front();
      if (!source.quant) continue;
      std::vector<std::int64_t> shape = weight.shape();
      if (ref.has(tag + ".w_dequant")) shape = ref.shape(tag + ".w_dequant");  // nvfp4 may be padded
      formats.insert(std::string(source.format_name()));
      QuantLinear(name, *part, ref, {tag, layer, shape})
          .run_all(source.quant->rotation != 0 && lossless_block_type(*source.quant).has_value());
      ++layers;
    }
  }
  EXPECT_GE(layers, 15);
  EXPECT_GE(formats.size(), 9u);
}

}  // namespace
}  // namespace tritium
