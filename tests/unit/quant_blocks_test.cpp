// Quantized matrices as ggml blocks, and the conversions of small floats they rest on.
#include "unit/quant_file.h"
#include "weights/quant/blocks.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tritium {
namespace {

using test::OpenedFile;
using test::QuantFile;

MatrixReader reader_of(const OpenedFile& opened) {
  if (!opened.logical) ADD_FAILURE() << opened.error;
  auto reader = MatrixReader::open(*opened.checkpoint, *opened.logical->find("l.weight"));
  if (!reader.ok()) ADD_FAILURE() << reader.error().text();
  return std::move(reader).value();
}

std::vector<std::uint8_t> encoded(const BlockEncoder& encoder, std::int64_t begin, std::int64_t end) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>((end - begin) * encoder.row_bytes()), 0xEE);
  const auto done = encoder.encode_rows(begin, end, out);
  EXPECT_TRUE(done.ok()) << done.error().text();
  return out;
}

QuantFile int8_file(const std::vector<float>& scales, std::int64_t columns = 32) {
  QuantFile file;
  const auto rows = static_cast<std::int64_t>(scales.size());
  std::string codes;
  for (std::int64_t i = 0; i < rows * columns; ++i) codes.push_back(static_cast<char>(i * 7 % 256 - 128));
  file.add("l.weight", "I8", {rows, columns}, codes);
  file.add_floats("l.weight_scale", {rows, 1}, scales);
  file.add_text("l.comfy_quant", R"({"format":"int8_tensorwise"})");
  return file;
}

TEST(QuantBlocks, ExponentIsThatOfTheMedianScale) {
  EXPECT_EQ(shared_exponent({0.25f}), -2);
  EXPECT_EQ(shared_exponent({100, 0.25f, 1e-9f}), -2);
  EXPECT_EQ(shared_exponent({0.125f, 0.125f, 0.375f, 0.5f}), -2);  // the median of four is between the middle ones
  EXPECT_EQ(shared_exponent({8, 8, 8}), 0);
  EXPECT_EQ(shared_exponent({1e-30f, 1e-30f}), -14);
  EXPECT_EQ(shared_exponent({0, 0, 1}), 0);
  EXPECT_EQ(shared_exponent({}), 0);
}

TEST(QuantBlocks, OutputScalesAreExactAndBlockScalesWithinHalfPrecision) {
  const std::vector<float> scales = {1e-30f, 3.1e-3f, 2.9e-3f, 0.7f, 5e4f};
  const OpenedFile opened(int8_file(scales));
  const MatrixReader reader = reader_of(opened);
  const auto exact = BlockEncoder::create(reader);
  ASSERT_TRUE(exact.ok()) << exact.error().text();
  EXPECT_TRUE(exact->exact());
  EXPECT_EQ(exact->row_bytes(), 34);
  const auto blocks = encoded(*exact, 0, 5);
  for (std::size_t n = 0; n < scales.size(); ++n) {
    const float d = f16_to_f32(static_cast<std::uint16_t>(blocks[n * 34] | blocks[n * 34 + 1] << 8));
    EXPECT_EQ(d, 0x1p-8f);
    EXPECT_EQ(d * exact->row_scale()[n], scales[n]);
  }
  const auto rounded = BlockEncoder::create(reader, ScalePlacement::blocks);
  ASSERT_TRUE(rounded.ok());
  EXPECT_FALSE(rounded->exact());
  EXPECT_TRUE(rounded->row_scale().empty());
  const auto whole = encoded(*rounded, 0, 5), part = encoded(*rounded, 3, 5);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 3 * 34));
  EXPECT_EQ(whole[0] | whole[1], 0) << "1e-30 is zero in fp16";
}

TEST(QuantBlocks, WhatDoesNotFitIsRefused) {
  const OpenedFile high(int8_file({70000}));
  const MatrixReader above = reader_of(high);
  EXPECT_TRUE(BlockEncoder::create(above).ok());
  const auto refused = BlockEncoder::create(above, ScalePlacement::blocks);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text().find("70000"), std::string::npos) << refused.error().text();

  const OpenedFile narrow(int8_file({1}, 33));
  const MatrixReader odd = reader_of(narrow);
  const auto unfilled = BlockEncoder::create(odd);
  ASSERT_FALSE(unfilled.ok());
  EXPECT_NE(unfilled.error().text().find("33 columns do not fill blocks of 32"), std::string::npos) << unfilled.error().text();

  for (const test::Sample& sample : test::all_samples(4, false)) {
    const bool none = sample.name.starts_with("nf4") || sample.file.tensors.contains("l.weight_correction");
    const OpenedFile opened(sample.file);
    EXPECT_EQ(lossless_block_type(*opened.logical->find("l.weight")->quant).has_value(), !none) << sample.name;
    const MatrixReader reader = reader_of(opened);
    if (none) { EXPECT_EQ(BlockEncoder::create(reader).error().code, ErrorCode::failure) << sample.name; }
    if (!sample.name.starts_with("nvfp4")) continue;
    QuantFile negative = sample.file;
    negative.tensors.at("l.weight_scale").bytes[0] = static_cast<char>(0x80 | 0x38);
    const OpenedFile signed_scale(negative);
    const MatrixReader signed_reader = reader_of(signed_scale);
    const auto encoder = BlockEncoder::create(signed_reader);
    ASSERT_FALSE(encoder.ok());
    EXPECT_NE(encoder.error().text().find("negative"), std::string::npos) << encoder.error().text();
  }
}

TEST(QuantBlocks, ScalesOfAwqThatNeedMoreThanHalfPrecisionAreReported) {
  QuantFile file;
  file.add("l.weight", "I8", {1, 32}, std::string(32, '\x21'));
  file.add_floats("l.weight_scale", {1, 1}, {0.5f});
  file.add_floats("l.weight_zeros", {1, 1}, {0.25f});
  file.add_text("l.comfy_quant", R"({"format":"awq_w4a16"})");
  const auto exactness = [&]() -> std::string {
    const OpenedFile opened(file);
    const MatrixReader reader = reader_of(opened);
    const auto encoder = BlockEncoder::create(reader);
    return !encoder.ok() ? "refused" : encoder->exact() ? "exact" : "rounded";
  };
  EXPECT_EQ(exactness(), "exact");
  file.add_floats("l.weight_scale", {1, 1}, {0.1f});
  EXPECT_EQ(exactness(), "rounded");
  file.add_floats("l.weight_scale", {1, 1}, {1e4f});  // 8 times that is beyond fp16
  EXPECT_EQ(exactness(), "refused");
}

TEST(QuantBlocks, Mxfp8BelowTheRangeOfBf16IsAnError) {
  QuantFile file;
  file.add("l.weight", "F8_E4M3", {1, 32}, std::string(32, '\1'));  // 2^-9 each
  std::string scales(512, '\x7F');
  file.add("l.weight_scale", "U8", {128, 4}, scales);
  file.add_text("l.comfy_quant", R"({"format":"mxfp8"})");
  {
    const OpenedFile opened(file);
    const MatrixReader reader = reader_of(opened);
    const auto blocks = encoded(BlockEncoder::create(reader).value(), 0, 1);
    EXPECT_EQ(bf16_to_f32(static_cast<std::uint16_t>(blocks[0] | blocks[1] << 8)), 0x1p-9f);
  }
  scales[0] = '\1';  // 2^-126 · 2^-9
  file.add("l.weight_scale", "U8", {128, 4}, scales);
  const OpenedFile opened(file);
  const MatrixReader reader = reader_of(opened);
  std::vector<std::uint8_t> out(64);
  const auto done = BlockEncoder::create(reader).value().encode_rows(0, 1, out);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().text().find("below the range of bf16"), std::string::npos);
}

TEST(SmallFloats, HalfPrecisionGoesThereAndBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = f16_to_f32(half);
    const int exponent = (half >> 10) & 31, mantissa = half & 1023;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << bits;
      continue;
    }
    const double magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                             : exponent == 0 ? std::ldexp(mantissa, -24)
                                             : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(std::abs(static_cast<double>(value)), magnitude) << bits;
    ASSERT_EQ(std::signbit(value), half >= 0x8000) << bits;
    ASSERT_EQ(f32_to_f16(value), half) << bits;
  }
}

TEST(SmallFloats, HalfPrecisionRoundsTiesToEven) {
  for (unsigned bits = 0; bits < 0x7BFF; ++bits) {  // between two neighbours, subnormals included
    const auto low = static_cast<std::uint16_t>(bits);
    const float a = f16_to_f32(low), b = f16_to_f32(static_cast<std::uint16_t>(bits + 1)), middle = a + (b - a) / 2;
    ASSERT_EQ(f32_to_f16(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9f)), bits + 1) << bits;
    ASSERT_EQ(f32_to_f16(-middle), 0x8000u | (bits % 2 == 0 ? bits : bits + 1)) << bits;
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520), 0x7C00);
  EXPECT_EQ(f32_to_f16(1e30f), 0x7C00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(f32_to_f16(1e-30f), 0);
}

TEST(SmallFloats, TablesHoldWhatTheFunctionsSay) {
  const std::vector<std::pair<DType, float (*)(std::uint8_t)>> types = {
      {DType::f8_e4m3, f8_e4m3_to_f32}, {DType::f8_e5m2, f8_e5m2_to_f32}, {DType::f8_e8m0, f8_e8m0_to_f32}};
  for (const auto& [type, convert] : types)
    for (unsigned code = 0; code < 256; ++code) {
      const float value = convert(static_cast<std::uint8_t>(code));
      if (std::isnan(value))
        EXPECT_TRUE(std::isnan(f8_values(type)[code]));
      else
        EXPECT_EQ(std::bit_cast<std::uint32_t>(f8_values(type)[code]), std::bit_cast<std::uint32_t>(value)) << code;
    }
}

}  // namespace
}  // namespace tritium
