// Where the values of a tensor to be written come from, a few rows at a time.
#pragma once

#include "weights/part.h"

#include <memory>

namespace tritium {

// What is added to weights before they are encoded: merged adapters, by official names and in the engine's row order.
class WeightDelta {
 public:
  virtual ~WeightDelta() = default;
  [[nodiscard]] virtual bool touches(const std::string& official) const = 0;
  // Adds to rows [first_row, ...) of a matrix of `columns` columns. Thread safe.
  virtual Result<void> add(const std::string& official, std::int64_t first_row, std::int64_t columns, std::span<float> rows) const = 0;
  // For the metadata of the file: a JSON text that names each adapter and its strength.
  [[nodiscard]] virtual std::string description() const = 0;
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  [[nodiscard]] virtual std::int64_t rows() const = 0;
  [[nodiscard]] virtual std::int64_t columns() const = 0;
  // Rows [begin, end); out: [end - begin, columns]. Thread safe.
  virtual Result<void> read(std::int64_t begin, std::int64_t end, std::span<float> out) const = 0;
};
using RowSourcePtr = std::unique_ptr<const RowSource>;

// A tensor of a part in the engine's row order. `delta` may be null; both must outlive the source. Errors: code model if it is missing.
Result<RowSourcePtr> part_rows(const WeightPart& part, const std::string& official, const WeightDelta* delta = nullptr);

// Rows in another order: row i is row order[i] of `inner`, given as runs. Precondition: check_row_order(order, inner->rows()).
RowSourcePtr reordered_rows(RowSourcePtr inner, RowOrder order);

// W·V: every row of `inner` times the rows of `basis` [rank, inner->columns()], summed in double precision. Out: [rows, rank].
RowSourcePtr projected_rows(RowSourcePtr inner, std::shared_ptr<const std::vector<double>> basis, std::int64_t rank);

// Values in memory, [rows, columns].
RowSourcePtr memory_rows(std::vector<float> values, std::int64_t columns);

// All of it. For what is small.
Result<std::vector<float>> read_all(const RowSource& source);

// The order of the official files, for rows that are [q, k, v][heads][head_dim]: [heads][q, k, v][head_dim].
RowOrder interleaved_qkv(std::int64_t heads, std::int64_t head_dim);

}  // namespace tritium
