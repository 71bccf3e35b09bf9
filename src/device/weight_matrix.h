// The matrix of a linear layer on a device: y = (rot(x ⊙ column_factor) · Uᵀ) ⊙ row_scale, absent parts count as 1.
#pragma once

#include "weights/quant/packed_rows.h"

#include <ggml.h>

namespace tritium {

// How matrices are multiplied. Single matrices that a file keeps in float32 are multiplied in float32 in any case.
enum class MatrixPrecision {
  f32,   // everything widened: small models, exact tests
  bf16,  // inputs and weights as bfloat16, accumulated in float32
  // As bf16, but rotated integer formats (PackedRows::meant_for_integers) are multiplied as integers with inputs of 8 bits, one scale a
  // row, as their reference does. The sums are exact.
  int8,
};
inline const char* precision_name(MatrixPrecision p) {
  return p == MatrixPrecision::f32 ? "f32" : p == MatrixPrecision::bf16 ? "bf16" : "int8";
}

// How quantized matrices are kept.
enum class MatrixForm {
  packed,  // as stored, decoded piece by piece while multiplied: for the CPU's own kernels; exact, and as small as the file
  blocks,  // as ggml's blocks: for devices that multiply them natively. Lossless where such a type exists, else Q8_0
};

struct MatrixPolicy {
  MatrixPrecision precision = MatrixPrecision::f32;
  MatrixForm form = MatrixForm::packed;
  bool pin = false;  // what stays in the file's own memory is locked there
  MatrixPolicy() = default;
  MatrixPolicy(MatrixPrecision p, MatrixForm f = MatrixForm::packed, bool pinned = false)
      : precision(p), form(f), pin(pinned) {}  // NOLINT(*-explicit-*)
};

struct WeightMatrix {
  WeightMatrix() = default;
  WeightMatrix(ggml_tensor* plain) : values(plain) {}  // NOLINT(*-explicit-*): a matrix that ggml multiplies as it is

  ggml_tensor* values = nullptr;                   // [in, out] of a type ggml multiplies; packed: I8 [bytes of a row, out]
  std::shared_ptr<const PackedRows> packed;        // how to decode `values`; null: they are multiplied as they are
  MatrixPrecision product = MatrixPrecision::f32;  // of packed rows
  ggml_tensor* row_scale = nullptr;                // [out]
  ggml_tensor* column_factor = nullptr;            // [in]
  std::int64_t rotation = 0;                       // ConvRot group of the input; 0: none

  [[nodiscard]] std::int64_t in() const { return packed ? packed->columns() : values->ne[0]; }
  [[nodiscard]] std::int64_t out() const { return values->ne[1]; }
};

}  // namespace tritium
