// Declaring and loading the tensors of a model part: what is refused, where bytes come from, what a load leaves in memory.
#include "device/params.h"

#include "base/files.h"
#include "ops/linear.h"
#include "support/golden.h"
#include "unit/temp_folder.h"
#include "weights/dit_names.h"
#include "weights/tensor_layout.h"

#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

namespace tritium {
namespace {

// A safetensors file of any types.
class FileBuilder {
 public:
  void add(const std::string& name, DType type, std::vector<std::int64_t> shape, std::vector<std::uint8_t> bytes) {
    declarations_.push_back({name, type, std::move(shape)});
    bytes_[name] = std::move(bytes);
  }
  void floats(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
    std::vector<std::uint8_t> bytes(values.size() * 4);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    add(name, DType::f32, std::move(shape), std::move(bytes));
  }
  void bfloats(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
    std::vector<std::uint8_t> bytes(values.size() * 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t word = f32_to_bf16(values[i]);
      std::memcpy(&bytes[2 * i], &word, 2);
    }
    add(name, DType::bf16, std::move(shape), std::move(bytes));
  }
  void text(const std::string& name, const std::string& text) {
    add(name, DType::u8, {static_cast<std::int64_t>(text.size())}, {text.begin(), text.end()});
  }
  std::shared_ptr<const WeightPart> open(const test::TempFolder& folder, const std::string& name = "model.safetensors") const {
    const FileLayout layout = layout_file(Container::safetensors, declarations_, {}).value();
    std::string file = layout.header;
    file.resize(layout.file_bytes);
    for (const TensorInfo& tensor : layout.tensors) {
      const auto& bytes = bytes_.at(tensor.name);
      EXPECT_EQ(bytes.size(), tensor.bytes) << tensor.name;
      std::memcpy(file.data() + tensor.offset, bytes.data(), bytes.size());
    }
    folder.write(name, file);
    return WeightPart::open(folder.path() / name).value();
  }

 private:
  std::vector<TensorDeclaration> declarations_;
  std::map<std::string, std::vector<std::uint8_t>> bytes_;
};

std::vector<float> noise(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& v : out) v = normal(generator);
  return out;
}

void add_int8(FileBuilder& file, const std::string& layer, std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * columns));
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(generator());
  std::vector<float> scales(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01f + 0.001f * static_cast<float>(i % 7);
  file.add(layer + ".weight", DType::i8, {rows, columns}, std::move(codes));
  file.floats(layer + ".weight_scale", {rows, 1}, scales);
  file.text(layer + ".comfy_quant", R"({"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 64})");
}

std::unique_ptr<Device> cpu() { return std::move(Device::open("CPU", 2)).value(); }

std::vector<float> product(Device& device, const WeightMatrix& weight, const std::vector<float>& x) {
  Graph graph(device, "test");
  const auto rows = static_cast<std::int64_t>(x.size()) / weight.in();
  ggml_tensor* y = graph.output("y", ops::linear(graph, {weight, nullptr, nullptr, nullptr}, graph.input("x", x, {weight.in(), rows})));
  EXPECT_TRUE(graph.run().ok());
  return graph.read(y);
}

// The product of a matrix with x, loaded alone.
std::vector<float> loaded_product(const WeightPart& part, const std::string& name, std::int64_t out, std::int64_t in,
                                  const std::vector<float>& x, MatrixPolicy policy = MatrixPrecision::f32) {
  const auto device = cpu();
  ParamLoader loader(part, "test", policy);
  const WeightMatrix weight = loader.matrix(name, out, in);
  const auto pool = loader.load(*device);
  EXPECT_TRUE(pool.ok()) << pool.error().text();
  return product(*device, weight, x);
}

// The same from a slot of reused memory.
std::vector<float> slot_product(const WeightPart& part, const std::string& name, std::int64_t out, std::int64_t in,
                                const std::vector<float>& x, MatrixPolicy policy, bool past_cache) {
  const auto device = cpu();
  ParamLoader loader(part, "test", policy);
  (void)loader.tensor("first", {1});  // the matrix does not begin where the slot does
  const WeightMatrix weight = loader.matrix(name, out, in);
  auto slot = DeviceBuffer::create(*device, loader.slot_bytes(*device), "test").value();
  slot.fill(0xFF);
  const auto pool = loader.load_into(slot, {2, past_cache});
  EXPECT_TRUE(pool.ok()) << pool.error().text();
  return product(*device, weight, x);
}

std::vector<float> plain_product(const std::vector<float>& w, const std::vector<float>& x, std::size_t in) {
  std::vector<float> out;
  for (std::size_t m = 0; m < x.size() / in; ++m)
    for (std::size_t n = 0; n < w.size() / in; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < in; ++k) sum += static_cast<double>(x[m * in + k]) * static_cast<double>(w[n * in + k]);
      out.push_back(static_cast<float>(sum));
    }
  return out;
}

TEST(Params, EverythingMissingOrMisshapenIsListedAtOnce) {
  const test::TempFolder folder;
  FileBuilder file;
  file.floats("a.weight", {4, 8}, noise(32, 1));
  const auto part = file.open(folder);
  ParamLoader loader(*part, "test part", MatrixPrecision::f32);
  (void)loader.matrix("a.weight", 8, 4);
  (void)loader.tensor("b.bias", {3});
  const auto check = loader.check();
  ASSERT_FALSE(check.ok());
  EXPECT_EQ(check.error().code, ErrorCode::model);
  for (const char* said : {"test part", "'a.weight' is [4, 8], expected [8, 4]", "'b.bias' [3] is missing"})
    EXPECT_NE(check.error().message.find(said), std::string::npos) << check.error().text();
  EXPECT_NE(check.error().hint.find("model.safetensors"), std::string::npos);
}

TEST(Params, IntegersWithoutADescriptionAreNoWeights) {
  const test::TempFolder folder;
  FileBuilder file;
  file.add("a.weight", DType::i32, {2, 2}, std::vector<std::uint8_t>(16));
  const auto part = file.open(folder);
  ParamLoader loader(*part, "test", MatrixPrecision::f32);
  (void)loader.matrix("a.weight", 2, 2);
  EXPECT_FALSE(loader.check().ok());
}

// Large tensors stay in the file's own memory, small ones are copied: both must be right, whatever the alignment.
TEST(Params, MappedAndCopiedMatricesAreTheSame) {
  const std::int64_t out = 96, in = 1024;
  const auto w = noise(static_cast<std::size_t>(out * in), 2), x = noise(3 * static_cast<std::size_t>(in), 3);
  std::vector<float> rounded(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) rounded[i] = bf16_to_f32(f32_to_bf16(w[i]));
  for (const std::size_t shift : {0u, 1u, 3u}) {
    const test::TempFolder folder;
    FileBuilder file;
    file.floats("f.weight", {out, in}, w);
    file.bfloats("b.weight", {out, in}, w);
    file.add("a.padding", DType::u8, {static_cast<std::int64_t>(shift)}, std::vector<std::uint8_t>(shift));
    add_int8(file, "q", out, in, 4);
    const auto part = file.open(folder);
    EXPECT_LT(golden::rel_l2(loaded_product(*part, "f.weight", out, in, x), plain_product(w, x, static_cast<std::size_t>(in))), 1e-6);
    EXPECT_LT(golden::rel_l2(loaded_product(*part, "b.weight", out, in, x), plain_product(rounded, x, static_cast<std::size_t>(in))), 1e-6);
    EXPECT_LT(golden::rel_l2(loaded_product(*part, "b.weight", out, in, x, MatrixPrecision::bf16),
                             plain_product(rounded, x, static_cast<std::size_t>(in))),
              5e-3);
    const auto decoded = part->read_f32("q.weight").value();
    EXPECT_LT(golden::rel_l2(loaded_product(*part, "q.weight", out, in, x), plain_product(decoded, x, static_cast<std::size_t>(in))), 1e-6);
  }
}

// Whether read through the page cache or past it, wherever the tensor begins in the file and in the slot.
// Half-precision weights are multiplied as asked for; float32 stays, but for products that the reference rounds whatever its weights are.
TEST(Params, PrecisionOfPlainMatrices) {
  constexpr std::int64_t kOut = 8, kIn = 64;
  const std::vector<float> values = noise(kOut * kIn, 4);
  std::vector<std::uint8_t> halves(values.size() * 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ggml_fp16_t half = ggml_fp32_to_fp16(values[i]);
    std::memcpy(&halves[2 * i], &half, 2);
  }
  FileBuilder file;
  file.floats("wide.weight", {kOut, kIn}, values);
  file.add("half.weight", DType::f16, {kOut, kIn}, halves);
  const test::TempFolder folder;
  const auto part = file.open(folder);
  const auto device = cpu();
  for (const MatrixPrecision precision : {MatrixPrecision::f32, MatrixPrecision::bf16})
    for (const MatrixForm form : {MatrixForm::packed, MatrixForm::blocks}) {
      ParamLoader loader(*part, "test", {precision, form});
      const ops::Linear kept{loader.matrix("wide.weight", kOut, kIn), nullptr}, half{loader.matrix("half.weight", kOut, kIn), nullptr},
          rounded{loader.autocast_matrix("wide.weight", kOut, kIn), nullptr};
      const TensorPool pool = loader.load(*device).value();
      EXPECT_EQ(ops::product_precision(kept), MatrixPrecision::f32);
      EXPECT_EQ(half.weight.packed != nullptr, form == MatrixForm::packed);
      if (form == MatrixForm::blocks) {
        EXPECT_EQ(half.weight.values->type, GGML_TYPE_F16);
        EXPECT_EQ(rounded.weight.values->type, GGML_TYPE_F32);
      } else {
        EXPECT_EQ(ops::product_precision(half), precision);
        EXPECT_EQ(ops::product_precision(rounded), precision);
      }
    }
}

TEST(Params, SlotsHoldTheSameMatrices) {
  const std::int64_t out = 96, in = 1024;
  const auto w = noise(static_cast<std::size_t>(out * in), 2), x = noise(3 * static_cast<std::size_t>(in), 3);
  for (const std::size_t shift : {0u, 1u, 4u, 3000u, 70000u}) {
    const test::TempFolder folder;
    FileBuilder file;
    file.floats("first", {1}, {1});
    file.add("a.padding", DType::u8, {static_cast<std::int64_t>(shift)}, std::vector<std::uint8_t>(shift));
    file.bfloats("b.weight", {out, in}, w);
    file.floats("f.weight", {out, in}, w);
    add_int8(file, "q", out, in, 4);
    const auto part = file.open(folder);
    for (const char* name : {"b.weight", "f.weight", "q.weight"})
      for (const auto precision : {MatrixPrecision::f32, MatrixPrecision::bf16}) {
        const auto expected = loaded_product(*part, name, out, in, x, precision);
        for (const bool past_cache : {false, true})
          EXPECT_EQ(slot_product(*part, name, out, in, x, precision, past_cache), expected) << name << " " << shift << " " << past_cache;
      }
  }
}

// Quantized rows in another order, and joined from several tensors.
TEST(Params, PackedRowsFollowTheNaming) {
  const test::TempFolder folder;
  const std::int64_t heads = 4, head_dim = 8, in = 256, inner = heads * head_dim;
  FileBuilder file;
  add_int8(file, "blocks.0.attn.qkv_proj", 3 * inner, in, 5);
  file.floats("blocks.0.attn.q_norm.weight", {head_dim}, std::vector<float>(static_cast<std::size_t>(head_dim), 1.0f));
  for (const char* name : {"to_q", "to_k", "to_v"})
    add_int8(file, std::string("transformer_blocks.0.attn.") + name, inner, in, static_cast<unsigned>(name[3]));
  add_int8(file, "transformer_blocks.0.ff.net.0.proj", 64, in, 9);
  const auto plain = file.open(folder);
  const auto x = noise(2 * static_cast<std::size_t>(in), 6);
  const auto reopened = [&](DitLayout layout) {
    auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(folder.path() / "model.safetensors").value());
    auto tensors = LogicalTensors::open(*checkpoint).value();
    Naming naming = dit_naming(tensors, layout);
    return WeightPart::wrap(std::move(checkpoint), std::move(tensors), std::move(naming));
  };
  for (const auto form : {MatrixForm::packed, MatrixForm::blocks})
    for (const auto layout : {DitLayout::plain, DitLayout::interleaved, DitLayout::diffusers}) {
      const auto part = reopened(layout);
      for (const auto& [name, rows] :
           {std::pair{"blocks.0.attn.qkv_proj.weight", 3 * inner}, std::pair{"blocks.0.mlp.fc1.weight", std::int64_t{64}}}) {
        if (!part->has(name)) continue;
        const auto expected = plain_product(part->read_f32(name).value(), x, static_cast<std::size_t>(in));
        EXPECT_LT(golden::rel_l2(loaded_product(*part, name, rows, in, x, {MatrixPrecision::f32, form}), expected),
                  form == MatrixForm::packed ? 1e-6 : 1e-2)
            << name << " " << layout_name(layout);
      }
    }
  EXPECT_NE(plain->read_f32("blocks.0.attn.qkv_proj.weight").value(),
            reopened(DitLayout::interleaved)->read_f32("blocks.0.attn.qkv_proj.weight").value());
}

TEST(Params, ValuesThatAreNotFiniteAreRefused) {
  for (const bool large : {false, true})
    for (const DType type : {DType::f32, DType::bf16}) {
      const test::TempFolder folder;
      const std::int64_t rows = large ? 256 : 4, columns = 256;
      auto w = noise(static_cast<std::size_t>(rows * columns), 7);
      w[w.size() - 2] = INFINITY;
      FileBuilder file;
      type == DType::f32 ? file.floats("a.weight", {rows, columns}, w) : file.bfloats("a.weight", {rows, columns}, w);
      const auto part = file.open(folder);
      const auto device = cpu();
      ParamLoader loader(*part, "test", MatrixPrecision::bf16);
      (void)loader.matrix("a.weight", rows, columns);
      const auto pool = loader.load(*device);
      ASSERT_FALSE(pool.ok());
      EXPECT_EQ(pool.error().code, ErrorCode::model);
      EXPECT_NE(pool.error().message.find("a.weight"), std::string::npos);
    }
}

// Scales that lie among the codes, and codes that are no numbers: mapped and copied ones, whatever the product's type.
TEST(Params, CodesAndBlockScalesThatAreNotFiniteAreRefused) {
  for (const bool large : {false, true}) {
    const test::TempFolder folder;
    const std::int64_t rows = large ? 256 : 4, columns = 512;
    FileBuilder file;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * columns), 0x38);
    codes[codes.size() / 2] = 0x7F;
    file.add("a.weight", DType::f8_e4m3, {rows, columns}, codes);
    const auto part = file.open(folder);
    // One block with an infinite, and one with a negative "all ones" scale, as erased disks give.
    const std::vector<TensorDeclaration> tensors{{"b.weight", DType::q8_0, {rows, columns}}};
    for (const std::uint16_t bad : {std::uint16_t{0x7C00}, std::uint16_t{0x7FFF}, std::uint16_t{0xFFFF}}) {
      const FileLayout layout = layout_file(Container::gguf, tensors, {}).value();
      std::string bytes = layout.header;
      bytes.resize(layout.file_bytes, '\x01');
      std::memcpy(bytes.data() + layout.tensors.front().offset + 34 * 5, &bad, 2);
      folder.write("b.gguf", bytes);
      const auto blocks = WeightPart::open(folder.path() / "b.gguf").value();
      const auto device = cpu();
      ParamLoader loader(*blocks, "test", MatrixPrecision::bf16);
      (void)loader.matrix("b.weight", rows, columns);
      const auto pool = loader.load(*device);
      ASSERT_FALSE(pool.ok());
      EXPECT_NE(pool.error().message.find("b.weight"), std::string::npos) << pool.error().text();
    }
    const auto device = cpu();
    ParamLoader loader(*part, "test", MatrixPrecision::bf16);
    (void)loader.matrix("a.weight", rows, columns);
    const auto pool = loader.load(*device);
    ASSERT_FALSE(pool.ok());
    EXPECT_EQ(pool.error().code, ErrorCode::model);
    EXPECT_NE(pool.error().message.find("a.weight"), std::string::npos) << pool.error().text();
  }
}

TEST(Params, AFileThatBecameShorterIsAnError) {
  const test::TempFolder folder;
  FileBuilder file;
  add_int8(file, "a", 512, 1024, 8);
  const auto part = file.open(folder);
  const auto device = cpu();
  ParamLoader loader(*part, "test", MatrixPrecision::f32);
  (void)loader.matrix("a.weight", 512, 1024);
  std::filesystem::resize_file(folder.path() / "model.safetensors", 100000);
  const auto pool = loader.load(*device);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().code, ErrorCode::model) << pool.error().text();
}

TEST(Params, ACancelledLoadEnds) {
  const test::TempFolder folder;
  FileBuilder file;
  add_int8(file, "a", 64, 1024, 8);
  const auto part = file.open(folder);
  const auto device = cpu();
  ParamLoader loader(*part, "test", MatrixPrecision::f32);
  (void)loader.matrix("a.weight", 64, 1024);
  CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(loader.load(*device, &cancel).error().code, ErrorCode::interrupted);
}

// The same weights through the low-rank branch: W + B·A.
TEST(Params, AdaptersSeeTheUnrotatedInput) {
  const test::TempFolder folder;
  const std::int64_t out = 32, in = 256, rank = 4;
  FileBuilder file;
  add_int8(file, "a", out, in, 10);
  const auto part = file.open(folder);
  const auto device = cpu();
  ParamLoader loader(*part, "test", MatrixPrecision::f32);
  ops::Linear layer{loader.matrix("a.weight", out, in), nullptr, nullptr, nullptr};
  const TensorPool weights = loader.load(*device).value();
  TensorPool adapters(2);
  layer.lora_down = adapters.add("down", GGML_TYPE_F32, {in, rank});
  layer.lora_up = adapters.add("up", GGML_TYPE_F32, {rank, out});
  ASSERT_TRUE(adapters.allocate(*device, "adapters").ok());
  const auto down = noise(static_cast<std::size_t>(rank * in), 11), up = noise(static_cast<std::size_t>(out * rank), 12),
             x = noise(2 * static_cast<std::size_t>(in), 13);
  upload(layer.lora_down, down);
  upload(layer.lora_up, up);
  auto merged = part->read_f32("a.weight").value();
  for (std::size_t n = 0; n < static_cast<std::size_t>(out); ++n)
    for (std::size_t k = 0; k < static_cast<std::size_t>(in); ++k)
      for (std::size_t r = 0; r < static_cast<std::size_t>(rank); ++r)
        merged[n * static_cast<std::size_t>(in) + k] +=
            up[n * static_cast<std::size_t>(rank) + r] * down[r * static_cast<std::size_t>(in) + k];
  Graph graph(*device, "test");
  ggml_tensor* y = graph.output("y", ops::linear(graph, layer, graph.input("x", x, {in, 2})));
  ASSERT_TRUE(graph.run().ok());
  EXPECT_LT(golden::rel_l2(graph.read(y), plain_product(merged, x, static_cast<std::size_t>(in))), 1e-6);
}

}  // namespace
}  // namespace tritium
