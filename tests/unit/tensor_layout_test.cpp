// Files laid out ahead of their data, in both containers, read back; ggml's block types: quantized, decoded, read row by row.
#include "weights/tensor_layout.h"
#include "unit/temp_folder.h"
#include "weights/ggml_types.h"
#include "weights/quant/logical_tensors.h"
#include "weights/quant/matrix_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace tritium {
namespace {

constexpr int kTypeCount = static_cast<int>(DType::q2_0) + 1;
DType type_at(int i) { return static_cast<DType>(i); }

std::vector<float> gaussian(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<float> out(count);
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

// Bytes of a tensor that are the same in every run and different for every tensor.
std::string pattern(std::uint64_t bytes, std::size_t seed) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>((i * 31 + seed * 17 + 5) & 0x3F);
  return out;
}

// The file of a layout with patterns for data, written tensor by tensor in reverse.
std::string file_of(const FileLayout& layout) {
  std::string out = layout.header;
  out.resize(layout.file_bytes, '\0');
  for (std::size_t i = layout.tensors.size(); i-- > 0;) {
    const TensorInfo& tensor = layout.tensors[i];
    EXPECT_LE(tensor.offset + tensor.bytes, layout.file_bytes) << tensor.name;
    out.replace(tensor.offset, tensor.bytes, pattern(tensor.bytes, i));
  }
  return out;
}

void expect_round_trip(Container container, const std::vector<TensorDeclaration>& declared, const FileMetadata& metadata,
                       const std::map<std::string, std::string, std::less<>>& text) {
  const auto layout = layout_file(container, declared, metadata);
  ASSERT_TRUE(layout.ok()) << layout.error().text();
  const test::TempFolder folder;
  const auto file = TensorFile::open(folder.write("file", file_of(*layout)));
  ASSERT_TRUE(file.ok()) << file.error().text();
  EXPECT_EQ(file->container(), container);
  EXPECT_EQ(file->file_bytes(), layout->file_bytes);
  EXPECT_EQ(file->header().tensors.size(), declared.size());
  for (const auto& [key, value] : text) EXPECT_EQ(file->header().metadata.at(key), value) << key;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const TensorInfo& read = file->header().tensors.at(declared[i].name);
    EXPECT_EQ(read.dtype, declared[i].dtype) << read.name;
    EXPECT_EQ(read.shape, declared[i].shape) << read.name;
    EXPECT_EQ(read.offset, layout->tensors[i].offset) << read.name;
    std::string bytes(read.bytes, '\0');
    ASSERT_TRUE(file->read(read, std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size())).ok());
    EXPECT_EQ(bytes, pattern(read.bytes, i)) << read.name;
    EXPECT_EQ(read.offset % (container == Container::gguf ? 32 : dtype_size(read.dtype)), 0u) << read.name;
  }
}

TEST(TensorLayout, EveryTypeComesBackFromTheContainersThatHoldIt) {
  for (const Container container : {Container::safetensors, Container::gguf}) {
    std::vector<TensorDeclaration> declared;
    for (int i = 0; i < kTypeCount; ++i) {
      const TensorDeclaration one{fmt::format("tensor.{}", dtype_name(type_at(i))), type_at(i), {3, 512}};
      if (container_has_dtype(container, type_at(i)))
        declared.push_back(one);
      else
        EXPECT_FALSE(layout_file(container, std::span(&one, 1), {}).ok()) << one.name;
    }
    declared.push_back({"vector", DType::u8, {5}});
    if (container == Container::gguf) declared.back().dtype = DType::i8;
    declared.push_back({"scalar", DType::f32, {}});
    declared.push_back({"conv", DType::bf16, {2, 3, 1, 2, 5}});
    declared.push_back({"six", DType::f16, {2, 1, 2, 1, 3, 7}});
    EXPECT_GT(declared.size(), 16u);
    expect_round_trip(container, declared,
                      {{"text", std::string("a \"b\"")}, {"number", 7u}, {"real", 0.25f}, {"list", std::vector<std::int32_t>{1, -2}}},
                      {{"text", "a \"b\""}, {"number", "7"}, {"real", "0.25"}, {"list", "[1, -2]"}});
  }
  expect_round_trip(Container::gguf, {}, {}, {});
  expect_round_trip(Container::safetensors, {}, {}, {});
}

TEST(TensorLayout, TheSameDeclarationsGiveTheSameHeader) {
  const std::vector<TensorDeclaration> declared = {{"b", DType::bf16, {4, 256}}, {"a", DType::f32, {3}}};
  for (const Container container : {Container::safetensors, Container::gguf}) {
    const auto one = layout_file(container, declared, {{"k", 1u}}), two = layout_file(container, declared, {{"k", 1u}});
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_EQ(one->header, two->header);
    EXPECT_EQ(one->tensors[0].name, "b") << "in the order of the declarations";
  }
}

TEST(TensorLayout, WhatCannotBeStoredIsRefusedByName) {
  const auto refuse = [](Container container, TensorDeclaration one, std::string_view reason, FileMetadata metadata = {}) {
    const auto layout = layout_file(container, std::span(&one, 1), metadata);
    ASSERT_FALSE(layout.ok()) << one.name;
    EXPECT_EQ(layout.error().code, ErrorCode::failure);
    EXPECT_NE(layout.error().text().find(reason), std::string::npos) << layout.error().text();
  };
  for (const Container both : {Container::safetensors, Container::gguf}) {
    refuse(both, {"", DType::f32, {1}}, "empty");
    refuse(both, {std::string(513, 'n'), DType::f32, {1}}, "513");
    refuse(both, {std::string("a\0b", 3), DType::f32, {1}}, "zero byte");
    refuse(both, {"\xC3", DType::f32, {1}}, "UTF-8");
    refuse(both, {"negative", DType::f32, {-1}}, "negative");
    refuse(both, {"huge", DType::f32, {std::int64_t{1} << 40, std::int64_t{1} << 40}}, "huge");
    refuse(both, {"a", DType::f32, {1}}, "key: there are two", {{"key", 1u}, {"key", 2u}});
    const std::vector<TensorDeclaration> twice = {{"a", DType::f32, {1}}, {"a", DType::f32, {1}}};
    EXPECT_FALSE(layout_file(both, twice, {}).ok());
  }
  refuse(Container::safetensors, {"__metadata__", DType::f32, {1}}, "__metadata__");
  refuse(Container::safetensors, {"q", DType::q4_k, {1, 256}}, "Q4_K");
  refuse(Container::gguf, {"f", DType::f8_e4m3, {1}}, "F8_E4M3");
  refuse(Container::gguf, {"q", DType::q4_k, {2, 128}}, "blocks of 256");
  refuse(Container::gguf, {"none", DType::f32, {0, 3}}, "without elements");
  refuse(Container::gguf, {"a", DType::f32, {1}}, "general.alignment", {{"general.alignment", 64u}});
}

// ---- block types ----------------------------------------------------------------------------------------------------------------

TEST(BlockTypes, NamesAndNumbersAreUnique) {
  std::set<std::string> names;
  std::set<std::uint32_t> ids;
  for (int i = 0; i < kTypeCount; ++i) {
    const DType type = type_at(i);
    const std::string name(dtype_name(type));
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(dtype_from_name(name).has_value(), !is_block_dtype(type)) << name;
    EXPECT_EQ(block_dtype_from_name(name), is_block_dtype(type) ? std::optional(type) : std::nullopt) << name;
    EXPECT_EQ(dtype_block(type).values > 1, is_block_dtype(type)) << name;
    const auto id = ggml_id(type);
    EXPECT_TRUE(id.has_value() || !is_block_dtype(type)) << name;
    if (!id) continue;
    EXPECT_TRUE(ids.insert(*id).second) << name;
    EXPECT_EQ(dtype_from_ggml(*id), type) << name;
  }
  EXPECT_EQ(block_dtype_from_name("q4_k"), DType::q4_k);
  EXPECT_FALSE(block_dtype_from_name("Q4_K_M"));
}

// Relative error of quantized gaussian rows: near what the bits of a type allow.
TEST(BlockTypes, QuantizedRowsAreCloseToTheirValues) {
  constexpr std::int64_t kRows = 8, kColumns = 512;
  const std::vector<float> values = gaussian(kRows * kColumns, 11);
  const std::map<DType, double> limits = {
      {DType::f32, 0},       {DType::f16, 3e-4},  {DType::bf16, 3e-3}, {DType::q8_0, 0.01}, {DType::q6_k, 0.03},  {DType::q5_k, 0.06},
      {DType::q5_0, 0.07},   {DType::q5_1, 0.07}, {DType::q4_k, 0.12}, {DType::q4_0, 0.14}, {DType::q4_1, 0.12},  {DType::iq4_nl, 0.12},
      {DType::iq4_xs, 0.12}, {DType::mxfp4, 0.2}, {DType::nvfp4, 0.2}, {DType::q3_k, 0.22}, {DType::iq3_s, 0.25}, {DType::iq3_xxs, 0.3},
      {DType::q2_k, 0.4},    {DType::tq1_0, 0.9}, {DType::tq2_0, 0.9}, {DType::q1_0, 0.9},  {DType::q2_0, 0.9}};
  for (int i = 0; i < kTypeCount; ++i) {
    const DType type = type_at(i);
    EXPECT_EQ(can_quantize(type), limits.contains(type)) << dtype_name(type);
    if (!can_quantize(type)) {
      EXPECT_FALSE(quantize(type, {}, 1, {}).ok()) << dtype_name(type);
      continue;
    }
    std::vector<std::uint8_t> bytes(*stored_bytes(type, std::vector<std::int64_t>{kRows, kColumns}));
    ASSERT_TRUE(quantize(type, values, kColumns, bytes).ok()) << dtype_name(type);
    std::vector<float> back(values.size());
    convert_to_f32(type, bytes, back);
    double error = 0, norm = 0;
    for (std::size_t k = 0; k < values.size(); ++k) {
      error += (static_cast<double>(back[k]) - values[k]) * (static_cast<double>(back[k]) - values[k]);
      norm += static_cast<double>(values[k]) * values[k];
    }
    std::printf("%-8s relative error %.4f\n", std::string(dtype_name(type)).c_str(), std::sqrt(error / norm));
    EXPECT_LE(std::sqrt(error / norm), limits.at(type)) << dtype_name(type);

    // Row by row, to and from odd addresses: the same.
    const std::size_t row_bytes = bytes.size() / kRows;
    std::vector<std::uint8_t> moved(row_bytes + 1);
    std::vector<float> row(kColumns);
    const auto first = std::span(values).first(kColumns);
    ASSERT_TRUE(quantize(type, first, kColumns, std::span(moved).subspan(1)).ok());
    EXPECT_TRUE(std::equal(moved.begin() + 1, moved.end(), bytes.begin())) << dtype_name(type);
    convert_to_f32(type, std::span(moved).subspan(1), row);
    EXPECT_TRUE(std::equal(row.begin(), row.end(), back.begin())) << dtype_name(type);
  }
}

TEST(BlockTypes, ValuesThatAreNotFiniteAreRefused) {
  std::vector<float> values(256, 1.0f);
  std::vector<std::uint8_t> bytes(4 * 256);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    values[100] = bad;
    for (const DType type : {DType::q8_0, DType::q4_k, DType::f16}) {
      const auto done = quantize(type, values, 256, std::span(bytes).first(*stored_bytes(type, std::vector<std::int64_t>{256})));
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().code, ErrorCode::failure);
    }
  }
}

// A file of one block matrix, read through the same classes as any other.
struct BlockFile {
  BlockFile(DType type, std::vector<std::int64_t> shape, const std::string& name) {
    const auto elements = TensorInfo{name, type, shape, 0, 0}.elements();
    values = gaussian(static_cast<std::size_t>(elements), 3);
    const TensorDeclaration declared{name, type, shape};
    const auto layout = layout_gguf(std::span(&declared, 1), {});
    EXPECT_TRUE(layout.ok()) << layout.error().text();
    std::vector<std::uint8_t> bytes(layout->tensors[0].bytes);
    EXPECT_TRUE(quantize(type, values, shape.back(), bytes).ok());
    convert_to_f32(type, bytes, values);
    std::string file = layout->header + std::string(bytes.begin(), bytes.end());
    file.resize(layout->file_bytes, '\0');
    path = folder.write("blocks.gguf", file);
  }
  test::TempFolder folder;
  std::filesystem::path path;
  std::vector<float> values;  // as stored
};

TEST(BlockTypes, AMatrixIsReadLikeAnyPlainOne) {
  for (const DType type : {DType::q8_0, DType::q4_k, DType::q6_k, DType::nvfp4}) {
    const BlockFile file(type, {700, 512}, "model.diffusion_model.blocks.0.weight");
    const auto checkpoint = Checkpoint::open(file.path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text();
    const auto tensors = LogicalTensors::open(*checkpoint);
    ASSERT_TRUE(tensors.ok()) << tensors.error().text();
    EXPECT_EQ(tensors->prefix(), "model.diffusion_model.");
    const LogicalTensor* tensor = tensors->find("blocks.0.weight");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->format_name(), dtype_name(type));
    EXPECT_FALSE(tensor->quant.has_value());
    const auto whole = tensors->read_f32(*tensor);
    ASSERT_TRUE(whole.ok());
    EXPECT_EQ(*whole, file.values);

    auto reader = MatrixReader::open(*checkpoint, *tensor, {700, 512});
    ASSERT_TRUE(reader.ok());
    EXPECT_TRUE(reader->has_whole_rows());
    ASSERT_TRUE(reader->set_row_order(swapped_halves(700)).ok());
    std::vector<float> rows(2 * 512);
    ASSERT_TRUE(reader->decode_rows(349, 351, rows).ok());
    std::int64_t stored = -1;
    ASSERT_TRUE(reader
                    ->visit_rows(349, 350,
                                 [&](std::int64_t row, std::int64_t, std::span<const std::uint8_t> bytes) {
                                   stored = row;
                                   EXPECT_EQ(bytes.size(), *stored_bytes(type, std::vector<std::int64_t>{512}));
                                 })
                    .ok());
    ASSERT_GE(stored, 0);
    EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + 512, file.values.begin() + stored * 512));
  }
}

// Restored shapes may have rows that begin within a block.
TEST(BlockTypes, RowsWithinBlocksAreDecoded) {
  const std::vector<float> values = gaussian(96, 5);
  std::vector<std::uint8_t> bytes(3 * 34);
  ASSERT_TRUE(quantize(DType::q8_0, values, 32, bytes).ok());
  std::vector<float> stored(96);
  convert_to_f32(DType::q8_0, bytes, stored);
  const TensorDeclaration declared{"w.weight", DType::q8_0, {3, 32}};
  auto layout = layout_gguf(std::span(&declared, 1), {{"comfy.gguf.orig_shapeXw.weight", std::vector<std::int32_t>{8, 12}}});
  ASSERT_TRUE(layout.ok()) << layout.error().text();
  layout->header.replace(layout->header.find("shapeXw"), 7, "shape.w");
  std::string file = layout->header + std::string(bytes.begin(), bytes.end());
  file.resize(layout->file_bytes, '\0');
  const test::TempFolder folder;
  const auto checkpoint = Checkpoint::open(folder.write("w.gguf", file));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text();
  const auto tensors = LogicalTensors::open(*checkpoint);
  ASSERT_TRUE(tensors.ok());
  const auto reader = MatrixReader::open(*checkpoint, tensors->all().begin()->second, {8, 12});
  ASSERT_TRUE(reader.ok()) << reader.error().text();
  EXPECT_FALSE(reader->has_whole_rows());
  std::vector<float> rows(5 * 12);
  ASSERT_TRUE(reader->decode_rows(2, 7, rows).ok());
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), stored.begin() + 24));
  EXPECT_FALSE(reader->visit_rows(0, 1, [](std::int64_t, std::int64_t, std::span<const std::uint8_t>) {}).ok());
}

}  // namespace
}  // namespace tritium
