// Shared by the golden tests of quantized weights.
#pragma once

#include "support/golden.h"
#include "weights/quant/blocks.h"
#include "weights/quant/logical_tensors.h"
#include "weights/quant/matrix_reader.h"

#include <gtest/gtest.h>

namespace tritium::quant_test {

// Of the largest value. The expected values of rotated weights were summed in float32 over up to G terms: there, the tolerances are
// those of the specification, and our own rounding is measured against double precision beside them.
inline constexpr double kTolerance = 5e-7;       // golden/weights/README.md
inline constexpr double kRotatedWeight = 1e-6;   // spec/weights.md §9.1
inline constexpr double kRotatedProduct = 5e-6;  // spec/weights.md §9.2

// The quantized files take more room than the repository's own selection has: they are in full trees only.
class GoldenQuant : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!golden::has("weights/cases.json")) GTEST_SKIP() << "this tree holds no quantized files";
  }
};

// A file under golden/weights with its logical tensors. What cannot be opened or found ends the test run with a message.
struct Model {
  explicit Model(const std::string& relative);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  [[nodiscard]] MatrixReader reader(const std::string& name) const;
  golden::Tensors file;
  LogicalTensors tensors;
};

// The whole matrix, or rows [begin, end).
std::vector<float> decoded(const MatrixReader& reader, std::int64_t begin = 0, std::int64_t end = -1);
std::vector<float> grid_of(const MatrixReader& reader);

// Largest difference in units of the largest expected value; printed and checked.
void expect_close(const std::string& what, std::span<const float> got, std::span<const float> expected, double tolerance = kTolerance);
void expect_equal(const std::string& what, std::span<const float> got, std::span<const float> expected);

// The weights of a rotated matrix with integers, in double and with the matrix of spec/weights.md §4.1 written out.
std::vector<float> rotated_in_double(const MatrixReader& reader);

// x [M, K] · wᵀ [N, K] + bias (or none), summed in double.
std::vector<float> linear(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& bias, std::int64_t columns);

// ggml's meaning of blocks.
std::vector<float> unpack_blocks(BlockType type, std::span<const std::uint8_t> bytes);
std::vector<std::uint8_t> encoded(const BlockEncoder& encoder, std::int64_t rows);
// What the blocks of a matrix mean, in the original basis and without the factors per input.
std::vector<float> decoded_blocks(const MatrixReader& reader, const BlockEncoder& encoder);

// Tag -> layer name over all cases of cases.json: letters mean the same layers everywhere.
std::map<std::string, std::string> all_tags(const nlohmann::json& cases);

// "FILE, tag A", "FILE tags A,B ..." or "FILE layer A" of cases.json; what cannot be understood ends the test run.
struct Reference {
  std::string file;
  std::vector<std::string> tags;
};
Reference parse_reference(const std::string& text);

}  // namespace tritium::quant_test
