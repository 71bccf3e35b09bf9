// Quantized weight files that must be refused: hostile descriptions, side tensors that do not fit, damage.
#include "unit/quant_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include <limits>

namespace tritium {
namespace {

using test::all_samples;
using test::expect_refused;
using test::int8_layer;
using test::marked;
using test::QuantFile;
using test::refusal;
using test::Sample;
using test::with_metadata;

TEST(QuantRefusals, HostileMarkers) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON"},
      {"not json", "not valid JSON"},
      {"{\"format\":\"int8_tensorwise\"", "not valid JSON"},
      {"{\"format\":\"int8_tensorwise\"}x", "not valid JSON"},
      {std::string("{\"format\":\"int8_tensorwise\"}\0", 29), "not valid JSON"},
      {"{\"format\":\"\xFF\"}", "not valid JSON"},
      {R"({"format":"int8_tensorwise","convrot_groupsize":1e999})", "not valid JSON"},
      {"[]", "must be a JSON object"},
      {"null", "must be a JSON object"},
      {"7", "must be a JSON object"},
      {"{}", "no string 'format'"},
      {R"({"format":7})", "no string 'format'"},
      {R"({"format":null})", "no string 'format'"},
      {R"({"format":""})", "unknown quantization format ''"},
      {R"({"format":"INT8_TENSORWISE"})", "unknown quantization format"},
      {R"("int3")", "unknown quantization format 'int3'"},
      {fmt::format(R"({{"format":"{}"}})", std::string(60'000, 'x')), "unknown quantization format"},
      {R"({"format":"int8_tensorwise","format":"nvfp4"})", "'format' appears twice"},
      {R"({"format":"int8_tensorwise","params":{"convrot":true,"convrot":false}})", "'convrot' appears twice"},
      {R"({"format":"int8_tensorwise","convrot":1})", "'convrot' must be true or false, it is 1"},
      {R"({"format":"int8_tensorwise","full_precision_matrix_mult":"yes"})", "'full_precision_matrix_mult' must be true or false"},
      {R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":0})", "it is 0"},
      {R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":-4})", "it is -4"},
      {R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":64.0})", "it is 64.0"},
      {R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":"64"})", "it is \"64\""},
      {R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":18446744073709551615})", "it is 18446744073709551615"},
      {R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":1})", "1 is not a power of 4"},
      {R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":8})", "8 is not a power of 4"},
      {R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":1048576})", "does not divide"},
      {R"({"format":"int8_tensorwise","convrot_groupsize":16,"params":{"convrot_groupsize":64}})", "is 16 but 64"},
      {fmt::format(R"({{"format":"int8_tensorwise","x":{}{}}})", std::string(30'000, '['), std::string(30'000, ']')), "nested deeper"},
      {R"({"format":"int8_tensorwise"})" + std::string(70'000, ' '), "the limit is 65536"},
  };
  for (const auto& [marker, reason] : cases) expect_refused(marked(marker), {"l.", reason});
  QuantFile file = int8_layer();
  file.add("l.comfy_quant", "I8", {2}, "{}");
  expect_refused(file, {"expected a U8 vector"});
  file.add("l.comfy_quant", "U8", {1, 2}, "{}");
  expect_refused(file, {"expected a U8 vector"});
}

TEST(QuantRefusals, HostileMetadata) {
  for (const char* text : {"", "[]", "{}", R"({"layers":[]})", R"({"layers":{"l":"int8_tensorwise","l":"nvfp4"}})",
                           R"({"layers":{"l":"int8_tensorwise","diffusion_model.l":"nvfp4"}})"})
    expect_refused(with_metadata(text), {"_quantization_metadata"});
  expect_refused(with_metadata(R"({"layers":{}})"), {"without any description"});
  expect_refused(with_metadata(R"({"layers":{"l":{"format":"int8_tensorwise","convrot":2}}})"),
                 {"l.weight", "'convrot' must be true or false"});
  expect_refused(with_metadata(R"({"layers":{"l":[]}})"), {"l.weight", "JSON object"});
  expect_refused(with_metadata(R"({"layers":{"l":"magic"}})"), {"l.weight", "unknown quantization format 'magic'"});
  expect_refused(with_metadata(fmt::format(R"({{"layers":{}{}}})", std::string(1'000'000, '['), std::string(1'000'000, ']'))),
                 {"nested deeper"});
  expect_refused(with_metadata(R"({"layers":{}})" + std::string(9u << 20, ' ')), {"the limit is"});
}

TEST(QuantRefusals, MissingSideTensorsAreNamed) {
  for (const Sample& sample : all_samples(5, true)) {
    if (sample.name.starts_with("fp8") && sample.name.ends_with("plain")) continue;
    for (const auto& [name, tensor] : sample.file.tensors) {
      const bool optional = name == "l.weight" || name == "l.weight_codebook" || name == "l.weight_correction" ||
                            name == "l.pre_quant_scale" || name == "l.scale_input";
      if (optional) continue;
      QuantFile file = sample.file;
      file.tensors.erase(name);
      const std::string said = refusal(file);
      EXPECT_FALSE(said.empty()) << sample.name << " without " << name;
      const bool description = name.ends_with("comfy_quant") || name.ends_with("nf4") || name == "scaled_fp8";
      const std::string expected = name == "l.scale_weight" ? "l.weight_scale" : name;  // its present name
      if (!description) { EXPECT_NE(said.find("'" + expected + "': it is missing"), std::string::npos) << said; }
    }
  }
}

// Every side tensor with a wrong shape or type, and every one that the format does not know.
TEST(QuantRefusals, SideTensorsMustFit) {
  for (const Sample& sample : all_samples(6, true)) {
    SCOPED_TRACE(sample.name);
    for (const auto& [name, tensor] : sample.file.tensors) {
      if (name == "l.weight" || name == "scaled_fp8" || name.ends_with("comfy_quant") || name.ends_with("nf4")) continue;
      QuantFile file = sample.file;
      const std::int64_t size = tensor.dtype == "F32" ? 4 : 1, count = static_cast<std::int64_t>(tensor.bytes.size()) / size;
      file.add(name, tensor.dtype, {count + 1}, std::string(static_cast<std::size_t>((count + 1) * size), '\1'));
      expect_refused(file, {"its shape is", name});
      file.add(name, "I16", tensor.shape, std::string(static_cast<std::size_t>(2 * count), '\1'));
      expect_refused(file, {"its type is I16", name});
    }
    for (const SideName& side : kSideNames) {
      const std::string name = "l" + std::string(side.suffix);
      if (sample.file.tensors.contains(name) || name == "l.input_scale" || name == "l.scale_input") continue;
      if (name == "l.scale_weight" || name == "l.weight_scale" || name == "l.weight_codebook" || name == "l.weight_correction" ||
          name == "l.pre_quant_scale")
        continue;
      QuantFile file = sample.file;
      file.add_floats(name, {1}, {1});
      expect_refused(file, {"does not belong to a weight of this kind", name});
    }
  }
}

TEST(QuantRefusals, SideTensorsOfPlainWeightsAreRefused) {
  QuantFile file;
  file.add_floats("l.weight", {2, 2}, {1, 2, 3, 4});
  file.add_floats("l.input_scale", {}, {1});  // of activations: harmless
  EXPECT_EQ(refusal(file), "");
  file.add_floats("l.weight_scale", {}, {2});
  expect_refused(file, {"l.weight_scale", "does not belong"});
  QuantFile twice = marked(R"({"format":"int8_tensorwise"})");
  twice.add_floats("l.scale_weight", {4, 1}, {1, 2, 3, 4});
  expect_refused(twice, {"stands for the same as"});
}

TEST(QuantRefusals, ScalesThatAreNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const Sample& sample : all_samples(7, true)) {
    SCOPED_TRACE(sample.name);
    for (const auto& [name, tensor] : sample.file.tensors) {
      const bool floats = tensor.dtype == "F32", scale_codes = !floats && (name == "l.weight_scale" || name == "l.weight_s_rel");
      QuantFile file = sample.file;
      if (floats)
        for (const float bad : {kNan, kInf, -kInf}) {
          std::string bytes = tensor.bytes;
          std::memcpy(bytes.data() + bytes.size() - 4, &bad, 4);
          file.add(name, tensor.dtype, tensor.shape, bytes);
          expect_refused(file, {name, fmt::format("value {} is not finite", bytes.size() / 4 - 1)});
        }
      if (!scale_codes) continue;
      const bool e8m0 = sample.name == "mxfp8";
      std::vector<int> bad_codes = {0xFF};
      if (!e8m0) bad_codes.push_back(0x7F);
      for (const int code : bad_codes) {
        std::string bytes = tensor.bytes;
        bytes[0] = static_cast<char>(code);
        file.add(name, tensor.dtype, tensor.shape, bytes);
        expect_refused(file, {name, "value 0 is not finite"});
      }
      if (name == "l.weight_s_rel") continue;
      std::string padding = tensor.bytes;  // the last row of the last tile is padding in these samples
      padding.back() = static_cast<char>(0xFF);
      file.add(name, tensor.dtype, tensor.shape, padding);
      EXPECT_EQ(refusal(file), "");
    }
  }
}

TEST(QuantRefusals, CodesMustFit) {
  const auto with_weight = [](QuantFile file, const char* type, std::vector<std::int64_t> shape, std::size_t bytes) {
    file.add("l.weight", type, std::move(shape), std::string(bytes, '\1'));
    return file;
  };
  const QuantFile int8 = marked(R"({"format":"int8_tensorwise"})");
  expect_refused(with_weight(int8, "U8", {4, 64}, 256), {"l.weight", "its type is U8, expected I8"});
  expect_refused(with_weight(int8, "BF16", {4, 64}, 512), {"its type is BF16"});
  expect_refused(with_weight(int8, "I8", {256}, 256), {"expected two dimensions"});
  expect_refused(with_weight(int8, "I8", {4, 8, 8}, 256), {"expected two dimensions"});
  expect_refused(with_weight(int8, "I8", {4, 0}, 0), {"at least one column"});
  expect_refused(with_weight(int8, "I8", {0, std::int64_t{1} << 40}, 0), {"below 2^31"});
  const QuantFile fp8 = marked(R"({"format":"float8_e4m3fn"})");
  expect_refused(with_weight(fp8, "F8_E5M2", {4, 64}, 256), {"its type is F8_E5M2, expected F8_E4M3"});

  for (const Sample& sample : all_samples(8, true)) {
    SCOPED_TRACE(sample.name);
    const test::StoredTensor& weight = sample.file.tensors.at("l.weight");
    const bool plain = sample.name.ends_with("plain");
    const std::size_t row = weight.bytes.size() / static_cast<std::size_t>(weight.shape[0]);
    if (!plain && sample.rows > 1 && sample.file.tensors.size() > 2) {
      const std::string said = refusal(
          with_weight(sample.file, weight.dtype.c_str(), {weight.shape[0] + 128, weight.shape[1]}, weight.bytes.size() + 128 * row));
      const bool one_scale = sample.name.starts_with("int8") ? sample.name.ends_with("[1]") || sample.name.ends_with("[]")
                                                             : sample.name.starts_with("fp8") && !sample.name.ends_with("row scales");
      EXPECT_EQ(said.empty(), one_scale) << said;
    }
  }
}

TEST(QuantRefusals, GroupSizesOfW4a8) {
  const auto file = [](std::int64_t group, std::int64_t groups, std::int64_t row_bytes, std::int64_t rotation = 4) {
    QuantFile out;
    out.add("l.weight", "I8", {1, row_bytes}, std::string(static_cast<std::size_t>(row_bytes), '\1'));
    out.add_floats("l.weight_s_rel", {1, groups}, std::vector<float>(static_cast<std::size_t>(groups), 1));
    out.add_floats("l.weight_s_channel", {1}, {1});
    out.add_text("l.comfy_quant", fmt::format(R"({{"format":"asym_w4a8_int8","group_size":{},"convrot_groupsize":{}}})", group, rotation));
    return out;
  };
  EXPECT_EQ(refusal(file(16, 2, 16)), "");
  EXPECT_EQ(refusal(file(16, 2, 24)), "");  // 6 bits
  EXPECT_EQ(refusal(file(8, 4, 16)), "");
  expect_refused(file(2, 16, 16), {"group_size 2"});
  expect_refused(file(12, 4, 24), {"group_size 12"});
  expect_refused(file(24, 2, 24), {"group_size 24"});
  expect_refused(file(16, 3, 16), {"neither 4 nor 6 bits"});
  expect_refused(file(16, 2, 17), {"neither 4 nor 6 bits"});
  expect_refused(file(4, 2, 4), {"16 does not divide its 8 columns"});
  expect_refused(file(16, 1, 12), {"32 does not divide its 16 columns"});  // 6 bits
  expect_refused(file(8, 4, 24), {"group_size 8", "multiple of 16"});      // 6 bits
  expect_refused(file(1048576, 2, 16), {"neither 4 nor 6 bits"});
  expect_refused(file(16, 2, 16, 64), {"64 does not divide its 32 columns"});
  QuantFile book = file(16, 2, 24);
  book.add_floats("l.weight_codebook", {16}, std::vector<float>(16, 1));
  expect_refused(book, {"6-bit codes have no codebook"});
}

TEST(QuantRefusals, HostileNf4States) {
  const auto file = [](const std::string& state) {
    QuantFile out;
    out.add("l.weight", "U8", {128, 1}, std::string(128, '\1'));
    out.add_floats("l.weight.absmax", {4}, {1, 1, 1, 1});
    out.add_floats("l.weight.quant_map", {16}, std::vector<float>(16, 1));
    out.add_text("l.weight.quant_state.bitsandbytes__nf4", state);
    return out;
  };
  const auto state = [](const char* type, const char* block, const char* dtype, const char* shape, const char* more = "") {
    return fmt::format(R"({{"quant_type":{},"blocksize":{},"dtype":{},"shape":{}{}}})", type, block, dtype, shape, more);
  };
  EXPECT_EQ(refusal(file(state(R"("nf4")", "64", R"("bfloat16")", "[4,64]"))), "");
  EXPECT_EQ(refusal(file(state(R"("nf4")", "64", R"("bfloat16")", "[1,256]") + "   ")), "");
  EXPECT_EQ(refusal(file(state(R"("nf4")", "64", R"("bfloat16")", "[1,255]"))), "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON"},
      {"[]", "JSON object"},
      {"{}", "quant_type"},
      {state(R"("fp4")", "64", R"("bfloat16")", "[4,64]"), "only 'nf4'"},
      {state("4", "64", R"("bfloat16")", "[4,64]"), "quant_type"},
      {state(R"("nf4")", "0", R"("bfloat16")", "[4,64]"), "'blocksize' is 0"},
      {state(R"("nf4")", "-64", R"("bfloat16")", "[4,64]"), "'blocksize' is -64"},
      {state(R"("nf4")", "64.5", R"("bfloat16")", "[4,64]"), "'blocksize' is 64.5"},
      {state(R"("nf4")", "9223372036854775808", R"("bfloat16")", "[4,64]"), "'blocksize' is 9223372036854775808"},
      {state(R"("nf4")", "32", R"("bfloat16")", "[4,64]"), "expected [8]"},
      {state(R"("nf4")", "64", R"("int8")", "[4,64]"), "'dtype' is 'int8'"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[4,63]"), "expected [126, 1]"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[256]"), "two dimensions"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[4,8,8]"), "two dimensions"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[4,-64]"), "two dimensions"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[4,\"64\"]"), "two dimensions"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[2147483648,2147483648]"), "two dimensions"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[2147483647,2147483647]"), "expected ["},
      {state(R"("nf4")", "64", R"("bfloat16")", "[256,0]"), "two dimensions"},
      {state(R"("nf4")", "64", R"("bfloat16")", "\"4,64\""), "two dimensions"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[4,64]", R"(,"nested_blocksize":0)"), "'nested_blocksize' is 0"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[4,64]", R"(,"nested_blocksize":256)"), "nested_offset"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[4,64]", R"(,"nested_blocksize":256,"nested_offset":1e300)"), "not finite"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[4,64]", R"(,"nested_blocksize":256,"nested_offset":0,"nested_dtype":"bfloat16")"),
       "'nested_dtype'"},
      {state(R"("nf4")", "64", R"("bfloat16")", "[4,64]", R"(,"nested_blocksize":256,"nested_offset":0)"), "missing"},
  };
  for (const auto& [text, reason] : cases) expect_refused(file(text), {"l.weight", reason});
}

TEST(QuantRefusals, AllBadLayersAreListedAtOnce) {
  QuantFile file;
  for (int i = 0; i < 12; ++i) file.add(fmt::format("l{:02}.weight", i), "I8", {1, 1}, "a");
  expect_refused(file, {"l00.weight", "l07.weight", "and 4 more"});
}

// Any one byte of a file changed, anywhere: refused or read, never a crash (run with the sanitizers).
TEST(QuantRefusals, DamagedFilesNeverCrash) {
  std::mt19937 random(9);
  int refused = 0;
  for (const Sample& sample : all_samples(9, true)) {
    const std::string whole = sample.file.bytes();
    const test::TempFolder folder;
    for (int round = 0; round < 24; ++round) {
      std::string damaged = whole;
      const std::size_t limit = round % 2 == 0 ? damaged.size() : damaged.find("}}") + 8;  // every other one in the header
      for (int hits = 0; hits <= round % 3; ++hits) damaged[8 + random() % (limit - 8)] = static_cast<char>(random() & 0xFFu);
      const auto checkpoint = Checkpoint::open(folder.write("model.safetensors", damaged));
      if (!checkpoint.ok()) continue;
      const auto logical = LogicalTensors::open(*checkpoint);
      if (!logical.ok()) {
        ++refused;
        continue;
      }
      for (const auto& [name, tensor] : logical->all())
        if (const auto values = logical->read_f32(tensor); !values.ok()) { EXPECT_EQ(values.error().code, ErrorCode::model); }
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace tritium
