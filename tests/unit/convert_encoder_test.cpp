// Every encoder: what it writes is read back by the loader, and the error is what the format allows.
#include "unit/convert_support.h"
#include "weights/convert/encoder.h"
#include "weights/convert/part_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

namespace tritium::test {
namespace {

struct Encoded {
  double measured = 0;         // by the encoder's own decoding
  std::vector<float> decoded;  // by the loader, from the file
};

// Encodes slices of `step` rows into a file laid out by the encoder's outputs, and reads that.
Encoded encode_through_file(const MatrixSpec& spec, const std::vector<float>& values, std::int64_t step,
                            Container container = Container::safetensors) {
  Encoded out;
  auto created = MatrixEncoder::create(spec);
  EXPECT_TRUE(created.ok()) << created.error().text();
  if (!created.ok()) return out;
  MatrixEncoder& encoder = **created;
  const TempFolder folder;
  const auto path = folder.path() / "x.bin";
  const auto layout = layout_file(container, encoder.outputs(), {});
  EXPECT_TRUE(layout.ok()) << layout.error().text();
  if (!layout.ok()) return out;
  auto file = PartFile::open(path, layout->file_bytes, {"a", "b", "c"}, false);
  EXPECT_TRUE(file.ok()) << file.error().text();
  if (!file.ok()) return out;
  const std::int64_t columns = spec.columns();
  const auto rows_of = [&](std::int64_t first, std::int64_t count) {
    return std::span(values).subspan(static_cast<std::size_t>(first * columns), static_cast<std::size_t>(count * columns));
  };
  step = std::max<std::int64_t>(encoder.row_step(), step / encoder.row_step() * encoder.row_step());
  if (encoder.survey() != MatrixEncoder::Survey::none)
    for (std::int64_t r = 0; r < spec.rows(); r += step) {
      const bool whole = encoder.survey() == MatrixEncoder::Survey::all;
      encoder.observe(r, rows_of(r, whole ? std::min(step, spec.rows() - r) : 1));
    }
  encoder.prepare();
  std::vector<EncodedPiece> pieces = encoder.constants();
  std::vector<float> decoded(values.size());
  for (std::int64_t r = 0; r < spec.rows(); r += step) {
    const std::int64_t count = std::min(step, spec.rows() - r);
    const auto done =
        encoder.encode(r, rows_of(r, count), pieces,
                       std::span(decoded).subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(count * columns)));
    EXPECT_TRUE(done.ok()) << done.error().text();
  }
  EXPECT_TRUE(file->write(0, layout->header).ok());
  for (const EncodedPiece& piece : pieces) {
    EXPECT_LE(piece.offset + piece.bytes.size(), layout->tensors[piece.output].bytes);
    EXPECT_TRUE(file->write(layout->tensors[piece.output].offset + piece.offset, piece.bytes).ok());
  }
  EXPECT_TRUE(file->commit().ok());
  out.measured = relative_error(decoded, values);
  const auto part = WeightPart::open(path);
  EXPECT_TRUE(part.ok()) << part.error().text();
  if (!part.ok()) return out;
  auto read = (*part)->read_f32(spec.name);
  EXPECT_TRUE(read.ok()) << read.error().text();
  if (read.ok()) out.decoded = std::move(*read);
  EXPECT_EQ(out.decoded, decoded) << spec.format.name << ": the encoder's decoding is the loader's";
  return out;
}

MatrixSpec spec_of(const std::string& format, std::int64_t rows, std::int64_t columns) {
  MatrixSpec spec{"blocks.0.mlp.fc2.weight", {rows, columns}, *target_format(format), 0, false};
  if (spec.format.rotated) spec.rotation = rotation_group_for(columns);
  return spec;
}

struct Bound {
  std::string format;
  double gaussian, outliers;  // relative L2
};

class Encoders : public ::testing::TestWithParam<Bound> {};

TEST_P(Encoders, C14_ReadBackWithinTheFormatsError) {
  const auto& [format, gaussian, outliers] = GetParam();
  const bool block = target_format(format)->block_type();
  for (const bool wild : {false, true})
    for (const std::int64_t columns : {256, 1024}) {
      const std::int64_t rows = 67;
      const std::vector<float> values = random_matrix(rows, columns, 11, wild);
      const Encoded got = encode_through_file(spec_of(format, rows, columns), values, 8, block ? Container::gguf : Container::safetensors);
      const double error = relative_error(got.decoded, values);
      fmt::print("{} [{}, {}]{}: {:.5f}\n", format, rows, columns, wild ? " outliers" : "", error);
      EXPECT_LE(error, wild ? outliers : gaussian) << format;
      EXPECT_DOUBLE_EQ(error, got.measured);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Encoders,
                         ::testing::Values(Bound{"f32", 0, 0}, Bound{"bf16", 0.002, 0.002}, Bound{"f16", 0.0003, 0.0003},
                                           Bound{"fp8", 0.028, 0.028}, Bound{"int8", 0.0095, 0.06}, Bound{"int8-convrot", 0.009, 0.009},
                                           Bound{"w4a8", 0.0725, 0.0725}, Bound{"nf4", 0.0925, 0.15}, Bound{"q8_0", 0.0055, 0.013},
                                           Bound{"q6_k", 0.018, 0.036}, Bound{"q5_k", 0.042, 0.07}, Bound{"q4_k", 0.085, 0.14},
                                           Bound{"q4_0", 0.11, 0.2}, Bound{"q5_0", 0.055, 0.1}),
                         [](const auto& test) {
                           std::string name = test.param.format;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(EncoderEdges, SlicesDoNotChangeTheBytes) {
  for (const char* format : {"int8-convrot", "w4a8", "nf4", "fp8"}) {
    const std::vector<float> values = random_matrix(40, 320, 3, true);
    const Encoded whole = encode_through_file(spec_of(format, 40, 320), values, 40),
                  rows = encode_through_file(spec_of(format, 40, 320), values, 40 / 8);
    const bool same_sample = std::string(format) != "w4a8";  // here its sample of rows follows the slices
    if (same_sample) { EXPECT_EQ(whole.decoded, rows.decoded) << format; }
  }
}

// Rows whose length is no multiple of 64: blocks of NF4 cross them.
TEST(EncoderEdges, Nf4BlocksCrossRows) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{7, 9}, {33, 48}, {5, 80}, {1, 1}}) {
    const std::vector<float> values = random_matrix(rows, columns, 9);
    EXPECT_LE(relative_error(encode_through_file(spec_of("nf4", rows, columns), values, 4).decoded, values), 0.15);
  }
}

TEST(EncoderEdges, ZeroAndOneRow) {
  for (const char* format : {"int8-convrot", "w4a8", "nf4", "fp8", "int8", "bf16"}) {
    const std::vector<float> zeros(4 * 256);
    EXPECT_EQ(encode_through_file(spec_of(format, 4, 256), zeros, 2).decoded, zeros) << format;
    const std::vector<float> one = random_matrix(1, 256, 4);
    EXPECT_LE(relative_error(encode_through_file(spec_of(format, 1, 256), one, 1).decoded, one), 0.1) << format;
  }
}

TEST(EncoderEdges, WhatIsNotFiniteIsRefusedByName) {
  for (const char* format : {"int8-convrot", "int8", "w4a8", "nf4", "fp8", "bf16", "q8_0"}) {
    auto encoder = MatrixEncoder::create(spec_of(format, 1, 256));
    ASSERT_TRUE(encoder.ok());
    std::vector<float> values(256, 1.0f), decoded(256);
    values[100] = std::numeric_limits<float>::quiet_NaN();
    std::vector<EncodedPiece> pieces;
    const auto done = (*encoder)->encode(0, values, pieces, decoded);
    ASSERT_FALSE(done.ok()) << format;
    EXPECT_EQ(done.error().field, "blocks.0.mlp.fc2.weight");
  }
}

TEST(EncoderEdges, HalfOverflowSaysWhatToDo) {
  auto encoder = MatrixEncoder::create(spec_of("f16", 1, 4));
  ASSERT_TRUE(encoder.ok());
  std::vector<float> values{1, 2, 70000, 4}, decoded(4);
  std::vector<EncodedPiece> pieces;
  const auto done = (*encoder)->encode(0, values, pieces, decoded);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().text().find("70000"), std::string::npos);
  EXPECT_NE(done.error().hint.find("--keep"), std::string::npos);
}

TEST(EncoderEdges, ShapesAFormatCannotHold) {
  EXPECT_FALSE(MatrixEncoder::create({"x.weight", {4, 100}, *target_format("q8_0"), 0, false}).ok());
  EXPECT_FALSE(MatrixEncoder::create({"x.weight", {4, 100}, *target_format("int8-convrot"), 64, false}).ok());
  EXPECT_FALSE(MatrixEncoder::create({"x.weight", {4}, *target_format("nf4"), 0, false}).ok());
  EXPECT_FALSE(MatrixEncoder::create({"x.bias", {4, 64}, *target_format("int8"), 0, false}).ok());
  EXPECT_EQ(rotation_group_for(2688, true), 64);
  EXPECT_EQ(rotation_group_for(512, true), 64);
  EXPECT_EQ(rotation_group_for(512), 256);
  EXPECT_EQ(rotation_group_for(48), 16);
  EXPECT_EQ(rotation_group_for(40), 0);
}

TEST(SmallFloats, E4m3IsTheNearest) {
  const auto& table = f8_values(DType::f8_e4m3);
  for (int code = 0; code < 256; ++code) {
    const float value = table[static_cast<std::size_t>(code)];
    if (std::isnan(value)) continue;
    EXPECT_EQ(f32_to_f8_e4m3(value), code) << code;
    if ((code & 0x7F) == 0x7E) continue;
    const float next = table[static_cast<std::size_t>(code + 1)], middle = (value + next) / 2;  // a tie goes to the even code
    EXPECT_EQ(f32_to_f8_e4m3(middle), code + code % 2) << code;
    EXPECT_EQ(f32_to_f8_e4m3(std::nextafter(middle, value)), code);
    EXPECT_EQ(f32_to_f8_e4m3(std::nextafter(middle, next)), code + 1);
  }
  EXPECT_EQ(f32_to_f8_e4m3(1e9f), 0x7E);
  EXPECT_EQ(f32_to_f8_e4m3(-1e9f), 0xFE);
}

}  // namespace
}  // namespace tritium::test
