// Quantized matrices of golden/weights as ggml blocks and in other row orders, real headers, and files that must be refused.
#include "base/files.h"
#include "golden/quant_support.h"
#include "unit/temp_folder.h"
#include "weights/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>

namespace tritium {
namespace {

using namespace quant_test;

// "attn.qkv_proj.weight" of "blocks.3.attn.qkv_proj.weight".
std::string last_parts(const std::string& name) {
  std::size_t at = name.size();
  for (int part = 0; part < 3 && at != std::string::npos && at > 0; ++part) at = name.rfind('.', at - 1);
  return at == std::string::npos ? name : name.substr(at + 1);
}

// ---- byte-exact blocks ----------------------------------------------------------------------------------------------------------

// "<case>_<tag>.<block>": the part before the tag says which case the layer comes from.
std::string case_of(const std::string& short_name) {
  const std::map<std::string, std::string> folders = {{"int8", "int8_convrot"}, {"w4a4", "convrot_w4a4"}, {"awq", "awq_w4a16"}};
  const auto found = folders.find(short_name);
  return found == folders.end() ? short_name : found->second;
}

TEST_F(GoldenQuant, GgmlBlocksAreByteExact) {
  const golden::Tensors ref("weights/ggml_map/ref.safetensors");
  const auto tags = all_tags(golden::json("weights/cases.json"));
  const std::set<std::string> blocks = {"q8_0", "q8_0_fp16scale", "q4_0", "q4_1", "nvfp4"};
  int cases = 0;
  for (const std::string& key : ref.names()) {
    const std::size_t dot = key.find('.'), line = key.rfind('_', dot);  // "source_tag.block"
    const std::string source = key.substr(0, line), tag = key.substr(line + 1, dot - line - 1), block = key.substr(dot + 1);
    if (!blocks.contains(block)) continue;
    const Model model(case_of(source) + "/model.safetensors");
    const MatrixReader reader = model.reader(tags.at(tag) + ".weight");
    const auto encoder = BlockEncoder::create(reader, block.ends_with("fp16scale") ? ScalePlacement::blocks : ScalePlacement::output);
    ASSERT_TRUE(encoder.ok()) << encoder.error().text();
    EXPECT_TRUE(block.starts_with(block_layout(encoder->type()).name)) << key;
    EXPECT_EQ(encoder->row_bytes(), ref.shape(key)[1]);
    const auto bytes = encoded(*encoder, reader.rows());
    expect_equal("ggml_map " + key, std::vector<float>(bytes.begin(), bytes.end()), ref.f32(key));
    const std::string own = source + "_" + tag;
    if (block.ends_with("fp16scale"))
      EXPECT_TRUE(encoder->row_scale().empty() && !encoder->exact());
    else if (ref.has(own + ".row_scale"))
      expect_equal("ggml_map " + own + ".row_scale", encoder->row_scale(), ref.f32(own + ".row_scale"));
    if (ref.has(own + ".tensor_scale"))
      expect_equal("ggml_map " + own + ".tensor_scale", encoder->row_scale(),
                   std::vector<float>(encoder->row_scale().size(), ref.f32(own + ".tensor_scale")[0]));
    if (ref.has(own + ".w_" + block))
      expect_equal("ggml_map " + own + ".w_" + block, unpack_blocks(encoder->type(), bytes), ref.f32(own + ".w_" + block));
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

// ---- row orders -----------------------------------------------------------------------------------------------------------------

std::vector<float> rows_in_order(MatrixReader reader, RowOrder order) {
  const auto set = reader.set_row_order(std::move(order));
  EXPECT_TRUE(set.ok()) << set.error().text();
  return decoded(reader);
}

TEST_F(GoldenQuant, RowOrdersDescribeOneFunction) {
  const auto cases = golden::json("weights/cases.json");
  const auto& facts = cases["row_orders"];
  const auto heads = facts["heads"].get<std::int64_t>(), head_dim = facts["head_dim"].get<std::int64_t>(),
             ffn = facts["ffn"].get<std::int64_t>();
  const auto columns = facts["K"].get<std::int64_t>();
  const golden::Tensors ref("weights/row_orders/ref.safetensors");
  const auto x = ref.f32("x");
  const auto check = [&](const std::string& name, const std::vector<float>& qkv, const std::vector<float>& fc1,
                         const std::vector<float>& fc2) {
    const auto part = static_cast<std::ptrdiff_t>(heads * head_dim * columns);
    std::ptrdiff_t first = 0;
    for (const char* which : {"q", "k", "v"}) {
      expect_close("row_orders " + name + " " + which, linear(x, {qkv.begin() + first, qkv.begin() + first + part}, {}, columns),
                   ref.f32(which));
      first += part;
    }
    const auto both = linear(x, fc1, {}, columns);
    std::vector<float> hidden;
    for (std::size_t m = 0; m < both.size() / static_cast<std::size_t>(2 * ffn); ++m)
      for (std::int64_t i = 0; i < ffn; ++i) {
        const auto row = static_cast<std::int64_t>(m) * 2 * ffn;
        const double gate = both[static_cast<std::size_t>(row + i)], up = both[static_cast<std::size_t>(row + ffn + i)];
        hidden.push_back(static_cast<float>(gate / (1 + std::exp(-gate)) * up));
      }
    expect_close("row_orders " + name + " mlp", linear(hidden, fc2, {}, ffn), ref.f32("mlp"));
  };
  for (const char* name : {"official", "comfy"}) {
    const Model model(std::string("row_orders/") + name + ".safetensors");
    const RowOrder order = std::string(name) == "official" ? deinterleaved_qkv(heads, head_dim) : RowOrder{};
    check(name, rows_in_order(model.reader("blocks.0.attn.qkv_proj.weight"), order), decoded(model.reader("blocks.0.mlp.fc1.weight")),
          decoded(model.reader("blocks.0.mlp.fc2.weight")));
  }
  const Model split("row_orders/diffusers.safetensors");
  std::vector<float> qkv;
  for (const char* which : {"q", "k", "v"}) {
    const auto part = decoded(split.reader(std::string("transformer_blocks.0.attn.to_") + which + ".weight"));
    qkv.insert(qkv.end(), part.begin(), part.end());
  }
  check("diffusers", qkv, rows_in_order(split.reader("transformer_blocks.0.ff.net.0.proj.weight"), swapped_halves(2 * ffn)),
        decoded(split.reader("transformer_blocks.0.ff.net.2.weight")));
}

// Any quantized matrix read in another order is the decoded matrix with its rows moved, and so are its integers, scales and blocks.
TEST_F(GoldenQuant, QuantizedRowsMoveAsAWhole) {
  const auto cases = golden::json("weights/cases.json");
  for (const auto& [name, one] : cases.items()) {
    if (!std::filesystem::exists(golden::path("weights/" + name + "/model.safetensors"))) continue;
    const Model model(name + "/model.safetensors");
    for (const auto& [logical, tensor] : model.tensors.all()) {
      if (!tensor.quant || tensor.shape[0] % 6 != 0) continue;
      const MatrixReader plain = model.reader(logical);
      MatrixReader moved = model.reader(logical);
      const std::int64_t head_dim = tensor.shape[0] / 6;
      ASSERT_TRUE(moved.set_row_order(deinterleaved_qkv(2, head_dim)).ok());
      const auto width = static_cast<std::size_t>(plain.columns());
      const auto permuted = [&](const auto& rows, std::size_t row_size) {
        auto out = rows;
        for (std::int64_t r = 0; r < plain.rows(); ++r) {
          const std::int64_t part = r / (2 * head_dim), head = r / head_dim % 2, from = (head * 3 + part) * head_dim + r % head_dim;
          std::copy_n(rows.begin() + from * static_cast<std::int64_t>(row_size), row_size,
                      out.begin() + r * static_cast<std::int64_t>(row_size));
        }
        return out;
      };
      EXPECT_EQ(decoded(moved), permuted(decoded(plain), width)) << name << " " << logical;
      if (const auto scales = plain.row_scales(); !scales.empty()) {
        EXPECT_EQ(moved.row_scales(), permuted(scales, 1)) << name << " " << logical;
      }
      const auto encoder = BlockEncoder::create(plain), moved_encoder = BlockEncoder::create(moved);
      ASSERT_EQ(encoder.ok(), moved_encoder.ok());
      if (encoder.ok()) {
        EXPECT_EQ(encoded(*moved_encoder, plain.rows()),
                  permuted(encoded(*encoder, plain.rows()), static_cast<std::size_t>(encoder->row_bytes())))
            << name << " " << logical;
      }
    }
  }
}

// ---- real headers ---------------------------------------------------------------------------------------------------------------

// Shapes by the last three parts of a name ("attn.qkv_proj.weight"), from the headers that hold matrices unpacked.
std::map<std::string, std::vector<std::int64_t>> known_shapes(const std::vector<FileHeader>& headers) {
  std::map<std::string, std::vector<std::int64_t>> out;
  for (const FileHeader& header : headers)
    for (const auto& [name, tensor] : header.tensors) {
      const bool unpacked = tensor.dtype == DType::i8 || tensor.dtype == DType::bf16 || tensor.dtype == DType::f8_e4m3;
      if (unpacked && tensor.shape.size() == 2 && name.starts_with("blocks.")) out.try_emplace(last_parts(name), tensor.shape);
    }
  return out;
}

// A real file's header in a sparse file of its size, with the texts of index.json put in: everything else reads as zero.
class SparseFile {
 public:
  SparseFile(const nlohmann::json& facts, const FileHeader& header, const std::string& header_bytes,
             const std::map<std::string, std::vector<std::int64_t>>& shapes)
      : path_(folder_.write("sparse.safetensors", header_bytes)) {
    std::filesystem::resize_file(path_, facts["sparse_file_size"].get<std::uint64_t>());
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    for (const auto& patch : facts["patch"])
      for (const auto& [name, tensor] : header.tensors) {
        if (!name.ends_with(patch["suffix"].get<std::string>())) continue;
        auto text = patch["text"].get<std::string>();
        if (patch["length"].is_null()) text = filled_in(text, name, tensor.bytes, shapes);
        if (text.size() != tensor.bytes) continue;
        file.seekp(static_cast<std::streamoff>(tensor.offset));
        file.write(text.data(), static_cast<std::streamsize>(text.size()));
      }
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  // A quant_state with the real shape, and spaces up to the length of the tensor.
  static std::string filled_in(const std::string& text, const std::string& name, std::uint64_t bytes,
                               const std::map<std::string, std::vector<std::int64_t>>& shapes) {
    std::string out = text.substr(0, text.rfind('}') + 1);
    const auto shape = shapes.find(last_parts(name.substr(0, name.find(".quant_state"))));
    if (shape == shapes.end()) return "";
    out.replace(out.find("[N, K]"), 6, shape_text(shape->second));
    if (out.size() < bytes) out.resize(bytes, ' ');
    return out;
  }

  test::TempFolder folder_;
  std::filesystem::path path_;
};

// Every layer of the real files is understood: as many quantized matrices as there are descriptions, nothing left over.
TEST_F(GoldenQuant, RealHeadersAreUnderstood) {
  const auto index = golden::json("weights/headers/index.json");
  std::map<std::string, std::pair<FileHeader, std::string>> headers;
  std::vector<FileHeader> plain;
  for (const auto& [name, facts] : index["files"].items()) {
    if (!facts.contains("dtype_counts")) continue;  // not a safetensors file
    const auto bytes = read_file(golden::path("weights/headers/" + facts["hdr"].get<std::string>()));
    ASSERT_TRUE(bytes.ok());
    auto header =
        parse_safetensors(std::span(reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size()), facts["sparse_file_size"]);
    ASSERT_TRUE(header.ok()) << name << ": " << header.error().text();
    plain.push_back(*header);
    headers.emplace(name, std::pair(std::move(header).value(), *bytes));
  }
  ASSERT_FALSE(headers.empty());
  const auto shapes = known_shapes(plain);
  for (const auto& [name, one] : headers) {
    const auto& facts = index["files"][name];
    const auto& [header, bytes] = one;
    EXPECT_EQ(header.tensors.size(), facts["tensors"].get<std::size_t>()) << name;
    std::size_t descriptions = 0;
    for (const auto& [tensor, info] : header.tensors)
      for (const auto& patch : facts["patch"])
        if (tensor.ends_with(patch["suffix"].get<std::string>())) {
          ++descriptions;
          break;
        }
    const SparseFile file(facts, header, bytes, shapes);
    const auto checkpoint = Checkpoint::open(file.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text();
    const auto tensors = LogicalTensors::open(*checkpoint);
    ASSERT_TRUE(tensors.ok()) << name << ": " << tensors.error().text();
    EXPECT_TRUE(tensors->notices().empty()) << name << ": " << tensors->notices().front();
    std::map<std::string_view, std::size_t> formats;
    std::set<std::int64_t> rotations;
    std::uint64_t logical_bytes = 0;
    std::size_t quantized = 0;
    for (const auto& [tensor, logical] : tensors->all()) {
      ++formats[logical.format_name()];
      logical_bytes += logical.bytes;
      if (!logical.quant) continue;
      ++quantized;
      rotations.insert(logical.quant->rotation);
    }
    EXPECT_EQ(quantized, descriptions) << name;
    EXPECT_EQ(logical_bytes, checkpoint->tensor_bytes()) << name << ": every tensor belongs to exactly one logical tensor";
    for (const auto& [format, count] : formats)
      std::printf("golden headers/%s: %zu %s\n", name.c_str(), count, std::string(format).c_str());
    std::printf("golden headers/%s: rotations %s\n", name.c_str(), fmt::format("{}", fmt::join(rotations, ", ")).c_str());
  }
}

// ---- files that must be refused -------------------------------------------------------------------------------------------------

Error refusal(const std::string& relative) {
  const golden::Tensors file(relative);
  const auto tensors = LogicalTensors::open(file.checkpoint());
  if (!tensors.ok()) return tensors.error();
  for (const auto& [name, tensor] : tensors->all()) {
    const auto values = tensors->read_f32(tensor);
    if (!values.ok()) return values.error();
  }
  return Error{ErrorCode::failure, "accepted", "", ""};
}

TEST_F(GoldenQuant, BadDescriptionsAreRefusedWithTheirReason) {
  // What the message must say, beside the file and the tensor.
  const std::map<std::string, std::string> reasons = {{"q_unknown_format", "unknown quantization format"},
                                                      {"q_marker_not_json", "not valid JSON"},
                                                      {"q_marker_huge", "the limit is 65536"},
                                                      {"q_no_marker", "without any description"},
                                                      {"q_missing_scale", "is missing"},
                                                      {"q_scale_shape", "its shape is [3, 1], expected [4, 1]"},
                                                      {"q_scale_nan", "not finite"},
                                                      {"q_group_not_pow4", "128 is not a power of 4"},
                                                      {"q_group_not_dividing", "256 does not divide its 320 columns"},
                                                      {"q_group_negative", "it is -256"},
                                                      {"q_w4a8_codebook_size", "its shape is [15], expected [16]"},
                                                      {"q_w4a8_width", "neither 4 nor 6 bits"},
                                                      {"q_nf4_shape", "expected [128, 1]"},
                                                      {"q_nf4_blocksize", "'blocksize' is 0"},
                                                      {"q_nf4_no_state", "quant_state"},
                                                      {"q_nvfp4_scale_shape", "expected [128, 16]"}};
  const auto index = golden::json("weights/bad_safetensors/index.json");
  ASSERT_FALSE(index["semantic"].empty());
  for (const auto& [file, why] : index["semantic"].items()) {
    const Error error = refusal("weights/bad_safetensors/" + file);
    std::printf("golden bad_safetensors/%s: %s\n", file.c_str(), error.text().c_str());
    EXPECT_EQ(error.code, ErrorCode::model) << file << ": " << why;
    EXPECT_NE(error.message.find(file), std::string::npos) << error.text();
    EXPECT_FALSE(error.field.empty()) << error.text();
    const auto reason = reasons.find(std::filesystem::path(file).stem().string());
    if (reason != reasons.end()) {
      EXPECT_NE(error.text().find(reason->second), std::string::npos) << error.text() << "\n  expected: " << reason->second;
    }
  }
}

}  // namespace
}  // namespace tritium
