// Decoding of every quantized format against its formula, at all sizes, in pieces, in other row orders and as ggml blocks.
#include "unit/quant_file.h"
#include "weights/quant/blocks.h"
#include "weights/quant/reference.h"
#include "weights/quant/rotation.h"

#include <gtest/gtest.h>
#include <cmath>

namespace tritium {
namespace {

using test::all_samples;
using test::OpenedFile;
using test::QuantFile;
using test::Sample;

// The reader of "l.weight" of an opened sample; a failed open fails the test and ends it.
MatrixReader reader_of(const OpenedFile& opened, const std::vector<std::int64_t>& shape = {}) {
  if (!opened.logical) ADD_FAILURE() << opened.error;
  auto reader = MatrixReader::open(*opened.checkpoint, *opened.logical->find("l.weight"), shape);
  if (!reader.ok()) ADD_FAILURE() << reader.error().text();
  return std::move(reader).value();
}

std::vector<float> decoded(const MatrixReader& reader, std::int64_t begin, std::int64_t end) {
  std::vector<float> out(static_cast<std::size_t>((end - begin) * reader.columns()), NAN);
  const auto done = reader.decode_rows(begin, end, out);
  EXPECT_TRUE(done.ok()) << done.error().text();
  return out;
}
std::vector<float> decoded(const MatrixReader& reader) { return decoded(reader, 0, reader.rows()); }

class EverySample : public ::testing::TestWithParam<bool> {
 protected:
  std::vector<Sample> samples_ = all_samples(GetParam() ? 1 : 2, GetParam());
};
INSTANTIATE_TEST_SUITE_P(Sizes, EverySample, ::testing::Values(false, true), [](const auto& one) { return one.param ? "Odd" : "Even"; });

TEST_P(EverySample, DecodesToItsFormula) {
  for (const Sample& sample : samples_) {
    SCOPED_TRACE(sample.name);
    const OpenedFile opened(sample.file);
    ASSERT_TRUE(opened.logical) << opened.error;
    EXPECT_TRUE(opened.logical->notices().empty());
    const MatrixReader reader = reader_of(opened);
    EXPECT_EQ(reader.tensor().shape, (std::vector<std::int64_t>{sample.rows, sample.columns}));
    EXPECT_EQ(reader.tensor().bytes, opened.checkpoint->tensor_bytes());
    const auto got = decoded(reader);
    const auto expected = sample.weights();
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(got[i]) - expected[i]));
      largest = std::max(largest, std::abs(expected[i]));
      ASSERT_TRUE(std::isfinite(got[i])) << i;
    }
    // Without a rotation the formula is followed to the bit; otherwise one rounding of sums that are exact, or of float32 sums.
    const double tolerance = sample.rotation == 0 ? 0 : sample.file.tensors.contains("l.weight_correction") ? 5e-7 : 2e-7;
    EXPECT_LE(worst, tolerance * largest);
  }
}

TEST_P(EverySample, PiecesAreTheWhole) {
  for (const Sample& sample : samples_) {
    SCOPED_TRACE(sample.name);
    const OpenedFile opened(sample.file);
    const MatrixReader reader = reader_of(opened);
    const auto whole = decoded(reader);
    for (const std::int64_t step : {1, 5}) {
      std::vector<float> joined;
      for (std::int64_t begin = 0; begin < reader.rows(); begin += step) {
        const auto part = decoded(reader, begin, std::min(begin + step, reader.rows()));
        joined.insert(joined.end(), part.begin(), part.end());
      }
      EXPECT_EQ(joined, whole);
    }
    EXPECT_TRUE(reader.decode_rows(2, 2, {}).ok());
  }
}

TEST_P(EverySample, RowsMayBeReordered) {
  for (const Sample& sample : samples_) {
    if (sample.rows < 7) continue;
    SCOPED_TRACE(sample.name);
    const OpenedFile opened(sample.file);
    const MatrixReader plain = reader_of(opened);
    MatrixReader moved = reader_of(opened);
    const std::int64_t n = sample.rows;
    ASSERT_TRUE(moved.set_row_order({{5, 2}, {0, 3}, {7, n - 7}, {3, 2}}).ok());
    std::vector<std::int64_t> source = {5, 6, 0, 1, 2};
    for (std::int64_t r = 7; r < n; ++r) source.push_back(r);
    source.insert(source.end(), {3, 4});
    std::vector<float> expected;
    for (const std::int64_t row : source) {
      const auto one = decoded(plain, row, row + 1);
      expected.insert(expected.end(), one.begin(), one.end());
    }
    EXPECT_EQ(decoded(moved), expected);
    const auto width = static_cast<std::size_t>(sample.columns);
    EXPECT_EQ(decoded(moved, 1, 6), std::vector<float>(expected.begin() + static_cast<std::ptrdiff_t>(width),
                                                       expected.begin() + static_cast<std::ptrdiff_t>(6 * width)));
  }
}

TEST_P(EverySample, GridsAreTheIntegersOfTheFormat) {
  for (const Sample& sample : samples_) {
    SCOPED_TRACE(sample.name);
    const OpenedFile opened(sample.file);
    const MatrixReader reader = reader_of(opened);
    std::vector<std::int8_t> grid(static_cast<std::size_t>(sample.rows * sample.columns));
    const auto done = reader.grid_rows(0, sample.rows, grid);
    ASSERT_EQ(done.ok(), static_cast<bool>(sample.integer));
    if (!done.ok()) continue;
    for (std::int64_t n = 0; n < sample.rows; ++n)
      for (std::int64_t k = 0; k < sample.columns; ++k)
        ASSERT_EQ(grid[static_cast<std::size_t>(n * sample.columns + k)], sample.integer(n, k)) << n << ", " << k;
    EXPECT_EQ(reader.row_scales().size(), static_cast<std::size_t>(sample.rows));
  }
}

TEST(QuantMatrix, ZeroRowsAreAMatrixToo) {
  QuantFile file;
  file.add("l.weight", "I8", {0, 64}, "");
  file.add("l.weight_scale", "F32", {0, 1}, "");
  file.add_text("l.comfy_quant", R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":64})");
  file.add("bias", "F32", {0}, "");
  const OpenedFile opened(file);
  const MatrixReader reader = reader_of(opened);
  EXPECT_EQ(reader.rows(), 0);
  EXPECT_EQ(reader.columns(), 64);
  EXPECT_TRUE(decoded(reader).empty());
  EXPECT_TRUE(reader.row_scales().empty());
  EXPECT_TRUE(BlockEncoder::create(reader).ok());
  EXPECT_TRUE(opened.logical->read_f32(*opened.logical->find("bias")).value().empty());
}

TEST(QuantMatrix, PlainTensorsOfAnyShapeAreRead) {
  QuantFile file;
  file.add_floats("l.weight", {2, 3, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  file.add_floats("scalar", {}, {7});
  const OpenedFile opened(file);
  MatrixReader reader = reader_of(opened);
  EXPECT_EQ(reader.rows(), 2);
  EXPECT_EQ(reader.columns(), 6);
  EXPECT_EQ(decoded(reader, 1, 2), (std::vector<float>{6, 7, 8, 9, 10, 11}));
  ASSERT_TRUE(reader.set_row_order(swapped_halves(2)).ok());
  EXPECT_EQ(decoded(reader), (std::vector<float>{6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(opened.logical->read_f32(*opened.logical->find("scalar")).value(), std::vector<float>{7});
  EXPECT_FALSE(BlockEncoder::create(reader).ok());
}

TEST(QuantMatrix, WantedShapeIsCheckedAndPaddingCut) {
  for (const Sample& sample : all_samples(3, false)) {
    if (sample.rotation != 0) continue;
    SCOPED_TRACE(sample.name);
    const OpenedFile opened(sample.file);
    const LogicalTensor& tensor = *opened.logical->find("l.weight");
    EXPECT_TRUE(MatrixReader::open(*opened.checkpoint, tensor, {sample.rows, sample.columns}).ok());
    const auto transposed = MatrixReader::open(*opened.checkpoint, tensor, {sample.columns + 16, sample.rows});
    ASSERT_FALSE(transposed.ok());
    EXPECT_NE(transposed.error().text().find(shape_text(tensor.shape)), std::string::npos) << transposed.error().text();
    EXPECT_NE(transposed.error().text().find("model.safetensors"), std::string::npos);
    const bool may_crop = sample.name.starts_with("nvfp4") && sample.rows % 16 == 0;
    EXPECT_EQ(MatrixReader::open(*opened.checkpoint, tensor, {sample.rows - 1, sample.columns}).ok(), may_crop);
    if (!sample.name.starts_with("nvfp4")) continue;
    const MatrixReader narrow = reader_of(opened, {sample.rows, sample.columns - 5});
    const auto got = decoded(narrow);
    const auto expected = sample.weights();
    for (std::int64_t n = 0; n < sample.rows; ++n)
      for (std::int64_t k = 0; k < sample.columns - 5; ++k)
        ASSERT_EQ(got[static_cast<std::size_t>(n * (sample.columns - 5) + k)], expected[static_cast<std::size_t>(n * sample.columns + k)]);
  }
}

TEST(QuantRowOrder, MustBeAPermutation) {
  EXPECT_TRUE(check_row_order({}, 5).ok());
  EXPECT_TRUE(check_row_order({{2, 3}, {0, 2}}, 5).ok());
  EXPECT_TRUE(check_row_order({{2, 3}, {0, 0}, {0, 2}}, 5).ok());
  const std::vector<RowOrder> wrong = {{{0, 4}},         {{0, 6}},         {{0, 3}, {2, 3}}, {{1, 4}}, {{-1, 6}}, {{0, -5}, {-5, 10}},
                                       {{0, 5}, {0, 5}}, {{0, INT64_MAX}}, {{3, 2}, {0, 2}}};
  for (const RowOrder& order : wrong) EXPECT_FALSE(check_row_order(order, 5).ok());
}

TEST(QuantRowOrder, DeinterleavesHeads) {
  const RowOrder order = deinterleaved_qkv(3, 2);
  ASSERT_TRUE(check_row_order(order, 18).ok());
  std::vector<std::int64_t> rows;
  ASSERT_TRUE(for_each_run(order, 0, 18, [&](std::int64_t first, std::int64_t count, std::int64_t position) -> Result<void> {
                EXPECT_EQ(position, static_cast<std::int64_t>(rows.size()));
                for (std::int64_t i = 0; i < count; ++i) rows.push_back(first + i);
                return {};
              }).ok());
  EXPECT_EQ(rows, (std::vector<std::int64_t>{0, 1, 6, 7, 12, 13, 2, 3, 8, 9, 14, 15, 4, 5, 10, 11, 16, 17}));
}

TEST(QuantRotation, GroupsArePowersOfFour) {
  for (const std::int64_t group : {4, 16, 64, 256, 1024, 4096}) EXPECT_TRUE(is_rotation_group(group)) << group;
  for (const std::int64_t group : {-4, 0, 1, 2, 8, 12, 128, 255, 512}) EXPECT_FALSE(is_rotation_group(group)) << group;
}

TEST(QuantRotation, IsItsOwnInverseAndKeepsLengths) {
  for (const std::int64_t group : {4, 16, 64, 256, 1024}) {
    std::vector<float> v(static_cast<std::size_t>(2 * group));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(static_cast<int>(i * 37 % 255) - 127);  // whole numbers
    auto turned = v;
    rotate(turned, group);
    double before = 0, after = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      before += static_cast<double>(v[i]) * static_cast<double>(v[i]);
      after += static_cast<double>(turned[i]) * static_cast<double>(turned[i]);
    }
    EXPECT_DOUBLE_EQ(before, after) << group;
    rotate(turned, group);
    EXPECT_EQ(turned, v) << group;
    rotate(turned, group, 0.5f);
    rotate(turned, group, 2);
    EXPECT_EQ(turned, v) << group;
  }
}

TEST(QuantReference, RowsAreQuantizedWithTiesToEvenAndZerosStayZero) {
  const std::vector<float> x = {127, -127, 0.5f, 1.5f, 2.5f, -0.5f, 0, 0, 0, 0, 0, 0};
  const QuantizedRows q = quantize_rows(x, 6);
  EXPECT_EQ(q.scale, (std::vector<float>{1, 1e-30f}));
  EXPECT_EQ(q.values, (std::vector<std::int8_t>{127, -127, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0}));
  const std::vector<std::int8_t> w = {-128, -128, -128, -128, -128, -128, 1, 2, 3, 4, 5, 6};
  EXPECT_EQ(multiply_int8(q.values, w, 6), (std::vector<std::int32_t>{-512, -109, 0, 0}));
}

}  // namespace
}  // namespace tritium
