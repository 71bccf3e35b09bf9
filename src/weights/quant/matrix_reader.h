// Reads the rows of a plain or quantized matrix out of a checkpoint, a few at a time: the codes are never in memory as a whole.
#pragma once

#include "weights/quant/row_order.h"
#include "weights/quant/side_values.h"

#include <functional>

namespace tritium {

class MatrixReader {
 public:
  // Loads and checks the side tensors. Errors: load_side_values'. A plain tensor of any rank is a matrix of shape[0] rows (one row for
  // a scalar). `checkpoint` and `tensor` must stay where they are while the reader is in use.
  // `shape`: the wanted shape [N, K], if known. Error code model, field = tensor, if the tensor does not have it; nvfp4 may have been
  // padded to multiples of 16, its padding is left out.
  static Result<MatrixReader> open(const Checkpoint& checkpoint, const LogicalTensor& tensor, const std::vector<std::int64_t>& shape = {});

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] const LogicalTensor& tensor() const { return *tensor_; }
  [[nodiscard]] const std::optional<QuantDescription>& quant() const { return tensor_->quant; }
  [[nodiscard]] const SideValues& sides() const { return sides_; }
  [[nodiscard]] const RowOrder& row_order() const { return order_; }

  // From now on, rows are counted in this order. Errors: check_row_order's.
  Result<void> set_row_order(RowOrder order);

  // Rows [begin, end) in float32, in the basis the model computes in, x·Wᵀ being the product with the unchanged input: rotations are
  // undone, nvfp4's factors per input are included. out: [end - begin, K]. May be called from several threads at once.
  Result<void> decode_rows(std::int64_t begin, std::int64_t end, std::span<float> out) const;

  // The integers of int8, w4a8, w6a8 and w4a4, in the rotated basis if there is one; out: [end - begin, K]. The scale of each row is in
  // row_scales(), w4a8 may have a correction beside it. Error code failure: a format without integers.
  Result<void> grid_rows(std::int64_t begin, std::int64_t end, std::span<std::int8_t> out) const;

  // One scale for every row, in the order of the rows. Empty for formats that have none.
  [[nodiscard]] std::vector<float> row_scales() const;

  // Whether every row has bytes of its own. Not with an odd number of NF4 columns, and not where a GGUF file restores a shape whose rows
  // begin within a block.
  [[nodiscard]] bool has_whole_rows() const;

  // Calls visit(row of the file, position among the wanted rows, stored bytes) for rows [begin, end) in turn. Error code failure: not
  // has_whole_rows().
  using RowVisit = std::function<void(std::int64_t stored_row, std::int64_t position, std::span<const std::uint8_t> bytes)>;
  Result<void> visit_rows(std::int64_t begin, std::int64_t end, const RowVisit& visit) const;

 private:
  MatrixReader(const Checkpoint& checkpoint, const LogicalTensor& tensor) : checkpoint_(&checkpoint), tensor_(&tensor) {}
  Result<void> fit(const std::vector<std::int64_t>& shape);
  Result<void> decode_nf4_rows(std::int64_t begin, std::int64_t end, std::span<float> out) const;
  Result<void> decode_broken_rows(std::int64_t begin, std::int64_t end, std::span<float> out) const;

  const Checkpoint* checkpoint_;
  const LogicalTensor* tensor_;
  std::int64_t rows_ = 0, columns_ = 0;
  std::uint64_t row_bytes_ = 0;  // stored
  SideValues sides_;
  RowOrder order_;
};

}  // namespace tritium
