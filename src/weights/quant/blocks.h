// Quantized matrices as blocks of the layouts ggml computes with (spec/weights.md §5): codes are moved, never quantized again.
//
//   y = (rot(x ⊙ column_factor) · Wᵀ) ⊙ row_scale + bias, W being the blocks; absent parts count as 1.
//
// Bytes are those of ggml's types of the same names: rows of blocks, each [scales][codes], little endian.
#pragma once

#include "weights/quant/matrix_reader.h"

namespace tritium {

enum class BlockType {
  q8_0,   // 32 values: fp16 d, 32 int8;                 d·q
  q4_0,   // 32 values: fp16 d, 16 bytes;                d·(nibble - 8), value i low and value i+16 high in byte i
  q4_1,   // 32 values: fp16 d, fp16 m, 16 bytes;        d·nibble + m, order as in q4_0
  nvfp4,  // 64 values: 4 E4M3 scales, 4 x 8 bytes;      scale·e2m1, values i and i+8 of each 16 in one byte, low first
  bf16,   // 1 value
};

struct BlockLayout {
  std::string_view name;
  std::int64_t values = 1, bytes = 1;
};
const BlockLayout& block_layout(BlockType type);

// Where int8's scale goes.
enum class ScalePlacement {
  output,  // d is the same power of two everywhere, the rest is in row_scale: exact
  blocks,  // d = fp16(scale) in every block, no row_scale: off by up to 2^-11 of a weight while the scale is a normal fp16, more below
};

// The type that holds this format without loss, if there is one.
std::optional<BlockType> lossless_block_type(const QuantDescription& quant);

class BlockEncoder {
 public:
  // Into the lossless type. Errors: code failure for a format without one (NF4) and for w4a8 with a correction; code model, field =
  // tensor, for columns that do not fill the blocks, scales the type cannot hold (fp16 overflow, negative nvfp4 scales).
  // `reader` must outlive the encoder.
  static Result<BlockEncoder> create(const MatrixReader& reader, ScalePlacement placement = ScalePlacement::output);
  static Result<BlockEncoder> create(MatrixReader&& reader, ScalePlacement placement = ScalePlacement::output) = delete;

  [[nodiscard]] BlockType type() const { return type_; }
  [[nodiscard]] std::int64_t row_bytes() const { return reader_->columns() / block_layout(type_).values * block_layout(type_).bytes; }
  [[nodiscard]] const std::vector<float>& row_scale() const { return row_scale_; }                          // [N], or empty
  [[nodiscard]] const std::vector<float>& column_factor() const { return reader_->sides().column_factor; }  // [K], or empty
  [[nodiscard]] std::int64_t rotation() const { return reader_->quant()->rotation; }                        // 0: none
  // Whether the blocks hold every weight exactly. False for ScalePlacement::blocks, and for awq where fp16 cannot hold a scale.
  [[nodiscard]] bool exact() const { return exact_; }

  // Rows [begin, end) in the reader's order; out: [end - begin, row_bytes]. Error code model: an mxfp8 value below the range of bf16.
  Result<void> encode_rows(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const;

 private:
  explicit BlockEncoder(const MatrixReader& reader) : reader_(&reader) {}
  Result<void> place_scales(ScalePlacement placement);
  Result<void> check_scales();
  [[nodiscard]] Error refuse(const std::string& what) const;

  const MatrixReader* reader_;
  BlockType type_ = BlockType::q8_0;
  std::vector<float> row_scale_;
  float block_scale_ = 1;  // d of every block; per row for ScalePlacement::blocks
  std::vector<float> d_of_row_;
  bool exact_ = true;
};

// The exponent e for which d = 2^e is nearest to the median of the scales, within the normal numbers of fp16 up to 1: -14 … 0.
int shared_exponent(std::vector<float> scales);

}  // namespace tritium
