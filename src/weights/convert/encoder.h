// From rows of float32 to the bytes of a format and its side tensors, the way the tools of the field make them (spec/weights.md §4).
//
//   outputs()                       what is written: names, types and shapes, known before any value
//   observe(rows) ..., prepare()    only if survey() asks for it: some formats need to know all rows, or some, before the first is encoded
//   encode(rows) ...                any order, several threads; also decodes again, so that the error can be measured
//   constants()                     what does not depend on the rows' place: markers, tables, scalars
#pragma once

#include "weights/convert/target_format.h"
#include "weights/tensor_layout.h"

#include <memory>
#include <span>

namespace tritium {

// Bytes of one output, at an offset within it.
struct EncodedPiece {
  std::size_t output = 0;  // index into outputs()
  std::uint64_t offset = 0;
  std::vector<std::uint8_t> bytes;
};

struct MatrixSpec {
  std::string name;                 // of the tensor in the target, "L.weight" for everything but plain types
  std::vector<std::int64_t> shape;  // quantized formats: [N, K]
  TargetFormat format;              // not Encoding::keep
  std::int64_t rotation = 0;        // ConvRot group of int8 and w4a8, which divides K; 0: none
  bool full_precision = false;      // Comfy's marker says: dequantize, multiply in floating point

  [[nodiscard]] std::int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  [[nodiscard]] std::int64_t columns() const;
};

class MatrixEncoder {
 public:
  enum class Survey { none, sample, all };

  // Error code failure: a shape the format cannot hold (MatrixSpec's preconditions).
  static Result<std::unique_ptr<MatrixEncoder>> create(const MatrixSpec& spec);
  virtual ~MatrixEncoder() = default;

  [[nodiscard]] const MatrixSpec& spec() const { return spec_; }
  [[nodiscard]] const std::vector<TensorDeclaration>& outputs() const { return outputs_; }  // the first is the matrix itself

  // sample: some rows from all over the matrix, one call each, in order. all: every row; several threads for different rows.
  [[nodiscard]] virtual Survey survey() const { return Survey::none; }
  virtual void observe(std::int64_t first_row, std::span<const float> values);
  virtual void prepare() {}

  // Slices begin at a multiple of this many rows.
  [[nodiscard]] virtual std::int64_t row_step() const { return 1; }

  // values: whole rows from first_row on; decoded: as many values, in the basis the model computes in.
  // Errors (code failure, field = tensor): a value that is not finite or too large for the type.
  virtual Result<void> encode(std::int64_t first_row, std::span<const float> values, std::vector<EncodedPiece>& pieces,
                              std::span<float> decoded) const = 0;
  [[nodiscard]] virtual std::vector<EncodedPiece> constants() const { return {}; }

 protected:
  explicit MatrixEncoder(MatrixSpec spec) : spec_(std::move(spec)) {}
  // An output called L<suffix>, L being the matrix's name without ".weight". Returns its index.
  std::size_t declare(std::string_view suffix, DType type, std::vector<std::int64_t> shape);
  [[nodiscard]] Result<void> check_finite(std::span<const float> values) const;

 private:
  MatrixSpec spec_;
  std::vector<TensorDeclaration> outputs_;
};

// The largest ConvRot group for matrices of K columns: 256, 64 or 16; 64 at the most for `wide_modulation`, the full model's adaLN.
// 0: none divides K.
std::int64_t rotation_group_for(std::int64_t columns, bool wide_modulation = false);

// The codebook that W4A8 files have when it is not fitted, 16 ascending values (spec/weights.md §4.3), and the table of NF4 (§4.6).
std::span<const float, 16> w4a8_fixed_codebook();
std::span<const float, 16> nf4_table();
// bitsandbytes' map for nested scales: 256 ascending values from -1 to 1, dense around zero (§4.6).
std::span<const float, 256> nested_scale_map();

// Nearest F8_E4M3 ("fn"), ties to even; what lies beyond ±448 becomes ±448. Precondition: not NaN.
std::uint8_t f32_to_f8_e4m3(float value);

}  // namespace tritium
