#include "weights/quant/matrix_reader.h"

#include "base/try.h"
#include "weights/quant/row_kernels.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

constexpr std::uint64_t kChunkBytes = 256u << 10;  // read at once: stays in the cache until it is decoded

}  // namespace

Result<MatrixReader> MatrixReader::open(const Checkpoint& checkpoint, const LogicalTensor& tensor, const std::vector<std::int64_t>& shape) {
  MatrixReader reader(checkpoint, tensor);
  reader.rows_ = tensor.shape.empty() ? 1 : tensor.shape[0];
  reader.columns_ = reader.rows_ == 0 ? 0 : tensor.elements() / reader.rows_;
  if (tensor.quant) reader.columns_ = tensor.shape[1];
  reader.row_bytes_ = reader.rows_ == 0 ? 0 : tensor.stored->bytes / static_cast<std::uint64_t>(reader.rows_);
  if (tensor.quant) { TRITIUM_TRY_ASSIGN(reader.sides_, load_side_values(checkpoint, tensor)); }
  if (!shape.empty()) TRITIUM_TRY(reader.fit(shape));
  return reader;
}

Result<void> MatrixReader::fit(const std::vector<std::int64_t>& shape) {
  const std::vector<std::int64_t>& have = tensor_->shape;
  if (shape == have) return {};
  const auto padded = [](std::int64_t n) { return (n + 15) / 16 * 16; };
  const auto fits = [&](std::size_t i) { return have[i] == shape[i] || have[i] == padded(shape[i]); };
  const bool cropped = tensor_->quant && tensor_->quant->format == QuantFormat::nvfp4 && shape.size() == 2 && fits(0) && fits(1);
  if (!cropped)
    return Error{ErrorCode::model,
                 fmt::format("its shape is {}, expected {}, in '{}'", shape_text(have), shape_text(shape),
                             file_holding(*checkpoint_, tensor_->stored->name)),
                 tensor_->stored->name, ""};
  rows_ = shape[0];
  columns_ = shape[1];
  return {};
}

Result<void> MatrixReader::set_row_order(RowOrder order) {
  TRITIUM_TRY(check_row_order(order, rows_));
  order_ = std::move(order);
  return {};
}

bool MatrixReader::has_whole_rows() const {
  if (quant()) return quant()->format != QuantFormat::nf4 || columns_ % 2 == 0;
  return columns_ % dtype_block(tensor_->stored->dtype).values == 0;
}

Result<void> MatrixReader::visit_rows(std::int64_t begin, std::int64_t end, const RowVisit& visit) const {
  if (!has_whole_rows())
    return Error{ErrorCode::failure,
                 fmt::format("rows of {} values of format {} have no bytes of their own", columns_, tensor_->format_name()), tensor_->name,
                 ""};
  const std::int64_t chunk_rows =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kChunkBytes / std::max<std::uint64_t>(1, row_bytes_)));
  std::vector<std::uint8_t> chunk;
  return for_each_run(order_, begin, end, [&](std::int64_t first, std::int64_t count, std::int64_t position) -> Result<void> {
    for (std::int64_t done = 0; done < count; done += chunk_rows) {
      const std::int64_t rows = std::min(chunk_rows, count - done);
      chunk.resize(static_cast<std::size_t>(rows) * row_bytes_);
      TRITIUM_TRY(checkpoint_->read_range(*tensor_->stored, static_cast<std::uint64_t>(first + done) * row_bytes_, chunk));
      for (std::int64_t i = 0; i < rows; ++i)
        visit(first + done + i, position + done + i, std::span(chunk).subspan(static_cast<std::size_t>(i) * row_bytes_, row_bytes_));
    }
    return {};
  });
}

Result<void> MatrixReader::decode_rows(std::int64_t begin, std::int64_t end, std::span<float> out) const {
  if (quant() && quant()->format == QuantFormat::nf4) return decode_nf4_rows(begin, end, out);
  if (!has_whole_rows()) return decode_broken_rows(begin, end, out);
  const auto width = static_cast<std::size_t>(columns_);
  return visit_rows(begin, end, [&](std::int64_t row, std::int64_t position, std::span<const std::uint8_t> bytes) {
    const std::span<float> target = out.subspan(static_cast<std::size_t>(position - begin) * width, width);
    if (quant())
      decode_row(*quant(), sides_, row, bytes, target);
    else
      convert_to_f32(tensor_->stored->dtype, bytes, target);
  });
}

Result<void> MatrixReader::decode_nf4_rows(std::int64_t begin, std::int64_t end, std::span<float> out) const {
  const std::int64_t chunk_rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(2 * kChunkBytes) / columns_);
  std::vector<std::uint8_t> chunk;
  return for_each_run(order_, begin, end, [&](std::int64_t first, std::int64_t count, std::int64_t position) -> Result<void> {
    for (std::int64_t done = 0; done < count; done += chunk_rows) {
      const std::int64_t rows = std::min(chunk_rows, count - done), element = (first + done) * columns_, elements = rows * columns_;
      const std::int64_t first_byte = element / 2, last_byte = (element + elements + 1) / 2;
      chunk.resize(static_cast<std::size_t>(last_byte - first_byte));
      TRITIUM_TRY(checkpoint_->read_range(*tensor_->stored, static_cast<std::uint64_t>(first_byte), chunk));
      decode_nf4(*quant(), sides_, element, chunk,
                 out.subspan(static_cast<std::size_t>((position + done - begin) * columns_), static_cast<std::size_t>(elements)));
    }
    return {};
  });
}

// Rows that begin and end within blocks: the blocks around each row are decoded.
Result<void> MatrixReader::decode_broken_rows(std::int64_t begin, std::int64_t end, std::span<float> out) const {
  const DType type = tensor_->stored->dtype;
  const DTypeBlock block = dtype_block(type);
  const auto width = static_cast<std::size_t>(columns_);
  std::vector<std::uint8_t> bytes;
  std::vector<float> values;
  return for_each_run(order_, begin, end, [&](std::int64_t first, std::int64_t count, std::int64_t position) -> Result<void> {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t element = (first + i) * columns_, first_block = element / block.values;
      const std::int64_t blocks = (element + columns_ + block.values - 1) / block.values - first_block;
      bytes.resize(static_cast<std::size_t>(blocks * block.bytes));
      values.resize(static_cast<std::size_t>(blocks * block.values));
      TRITIUM_TRY(checkpoint_->read_range(*tensor_->stored, static_cast<std::uint64_t>(first_block * block.bytes), bytes));
      convert_to_f32(type, bytes, values);
      std::copy_n(values.begin() + (element - first_block * block.values), width, out.begin() + (position + i - begin) * columns_);
    }
    return {};
  });
}

Result<void> MatrixReader::grid_rows(std::int64_t begin, std::int64_t end, std::span<std::int8_t> out) const {
  if (!quant() || !has_integer_grid(*quant()))
    return Error{ErrorCode::failure, fmt::format("a matrix of format {} has no integers", tensor_->format_name()), tensor_->name, ""};
  const auto width = static_cast<std::size_t>(columns_);
  std::vector<float> grid(width);
  return visit_rows(begin, end, [&](std::int64_t row, std::int64_t position, std::span<const std::uint8_t> bytes) {
    grid_row(*quant(), sides_, row, bytes, grid);
    std::int8_t* target = out.data() + static_cast<std::size_t>(position - begin) * width;
    for (std::size_t k = 0; k < width; ++k) target[k] = static_cast<std::int8_t>(grid[k]);
  });
}

std::vector<float> MatrixReader::row_scales() const {
  if (sides_.row_scale.empty()) return {};
  std::vector<float> out(static_cast<std::size_t>(rows_));
  (void)for_each_run(order_, 0, rows_, [&](std::int64_t first, std::int64_t count, std::int64_t position) -> Result<void> {
    for (std::int64_t i = 0; i < count; ++i) out[static_cast<std::size_t>(position + i)] = sides_.row_scale_at(first + i);
    return {};
  });
  return out;
}

}  // namespace tritium
