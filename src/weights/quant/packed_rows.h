// A quantized matrix in memory as it is stored, row after row, decoded piece by piece while it is multiplied.
//
//   y = (rot(x ⊙ column_factor) · Uᵀ) ⊙ row_scale + bias
//
// U are the rows as decode() gives them, without the scale that a whole row or matrix shares: of int8 formats the integers, of fp8 the
// codes' values. Of every format of spec/weights.md §4 but awq_w4a16 (and w4a8 with a correction) a bfloat16 holds U exactly.
#pragma once

#include "weights/part.h"
#include "weights/quant/four_bit_row.h"

namespace tritium {

class PackedRows {
 public:
  PackedRows() = default;
  explicit PackedRows(std::int64_t columns) : columns_(columns) {}  // declared, not read yet

  // Whether the rows of these tensors can be kept together as stored: one format, whole bytes a row, rotations and factors of the input
  // in common. From headers alone. False for plain F32 and BF16, which need no decoding.
  static bool possible(const PlacedTensor& tensor);

  // Reads and checks the side tensors. Precondition: possible(). Errors: PartRows::open's.
  static Result<PackedRows> open(const WeightPart& part, const PlacedTensor& tensor);

  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(origin_.size()); }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] std::size_t row_bytes() const { return row_bytes_; }

  [[nodiscard]] const std::vector<float>& row_scale() const { return row_scale_; }          // [rows], or empty
  [[nodiscard]] const std::vector<float>& column_factor() const { return column_factor_; }  // [columns], or empty
  [[nodiscard]] std::int64_t rotation() const { return rotation_; }                         // 0: none

  // Whether the reference multiplies such rows as 8-bit integers with inputs of 8 bits (spec/weights.md §4.2, §4.3): rotated integer
  // formats, unless they are marked otherwise. From headers alone.
  static bool meant_for_integers(const PlacedTensor& tensor);
  // U of rows [begin, end) as the integers they are, `stride` bytes apart; what lies between them is left alone. Precondition:
  // meant_for_integers(). Thread safe.
  void decode_integers(std::int64_t begin, std::int64_t end, const std::uint8_t* bytes, std::int64_t stride, std::int8_t* out) const;

  // U of one row if it is stored as plain integers of 8 bits, else null.
  [[nodiscard]] const std::int8_t* stored_integers(std::int64_t row, const std::uint8_t* bytes) const;

  // U of one row if it is stored as plain float16 and aligned as such, else null.
  [[nodiscard]] const std::uint16_t* stored_halves(std::int64_t row, const std::uint8_t* bytes) const;

  // One row of a format whose values are those of a table times the scale of their group; else nothing.
  [[nodiscard]] std::optional<FourBitRow> four_bit_row(std::int64_t row, const std::uint8_t* bytes) const;

  // Where the bytes given to decode() are all rows as the file has them, not in the order of the rows. Precondition: one source.
  void set_file_order() { file_order_ = true; }

  // U of rows [begin, end). `bytes`: all stored rows; out: [end - begin, columns]. Thread safe.
  void decode(std::int64_t begin, std::int64_t end, const std::uint8_t* bytes, float* out) const;

 private:
  struct Source {
    std::optional<QuantDescription> quant;  // none: plain, of `dtype`
    DType dtype = DType::f32;
    SideValues sides;               // without what row_scale and column_factor hold
    std::vector<float> base_scale;  // w4a8 with a correction: the scale of each row, which cannot be left out
  };
  struct Origin {
    std::uint32_t source = 0, row = 0;
  };
  [[nodiscard]] const std::uint8_t* stored_row(std::int64_t row, const std::uint8_t* bytes) const;
  void decode_row_of(const Source& source, std::int64_t row, std::span<const std::uint8_t> bytes, std::span<float> out) const;

  std::vector<Source> sources_;
  std::vector<Origin> origin_;  // of each row
  std::int64_t columns_ = 0, rotation_ = 0;
  std::size_t row_bytes_ = 0;
  bool file_order_ = false;
  std::vector<float> row_scale_, column_factor_;
};

}  // namespace tritium
