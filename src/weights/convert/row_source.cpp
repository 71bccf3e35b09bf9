#include "weights/convert/row_source.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

class PartSource final : public RowSource {
 public:
  PartSource(PartRows rows, std::string official, const WeightDelta* delta)
      : rows_(std::move(rows)), official_(std::move(official)), delta_(delta) {}
  [[nodiscard]] std::int64_t rows() const override { return rows_.rows(); }
  [[nodiscard]] std::int64_t columns() const override { return rows_.columns(); }
  Result<void> read(std::int64_t begin, std::int64_t end, std::span<float> out) const override {
    TRITIUM_TRY(rows_.decode(begin, end, out));
    return delta_ == nullptr ? Result<void>() : delta_->add(official_, begin, columns(), out);
  }

 private:
  PartRows rows_;
  std::string official_;
  const WeightDelta* delta_;
};

class Reordered final : public RowSource {
 public:
  Reordered(RowSourcePtr inner, RowOrder order) : inner_(std::move(inner)), order_(std::move(order)) {}
  [[nodiscard]] std::int64_t rows() const override { return inner_->rows(); }
  [[nodiscard]] std::int64_t columns() const override { return inner_->columns(); }
  Result<void> read(std::int64_t begin, std::int64_t end, std::span<float> out) const override {
    const auto width = static_cast<std::size_t>(columns());
    return for_each_run(order_, begin, end, [&](std::int64_t first, std::int64_t count, std::int64_t position) {
      return inner_->read(first, first + count,
                          out.subspan(static_cast<std::size_t>(position - begin) * width, static_cast<std::size_t>(count) * width));
    });
  }

 private:
  RowSourcePtr inner_;
  RowOrder order_;
};

class Projected final : public RowSource {
 public:
  Projected(RowSourcePtr inner, std::shared_ptr<const std::vector<double>> basis, std::int64_t rank)
      : inner_(std::move(inner)), basis_(std::move(basis)), rank_(rank) {}
  [[nodiscard]] std::int64_t rows() const override { return inner_->rows(); }
  [[nodiscard]] std::int64_t columns() const override { return rank_; }
  Result<void> read(std::int64_t begin, std::int64_t end, std::span<float> out) const override {
    const auto width = static_cast<std::size_t>(inner_->columns()), rank = static_cast<std::size_t>(rank_);
    std::vector<float> row(width);
    std::vector<double> sums(rank);
    for (std::int64_t r = begin; r < end; ++r) {
      TRITIUM_TRY(inner_->read(r, r + 1, row));
      for (std::size_t j = 0; j < rank; ++j) {
        const double* direction = basis_->data() + j * width;
        std::array<double, 4> sum{};
        for (std::size_t k = 0; k < width; ++k) sum[k % 4] += static_cast<double>(row[k]) * direction[k];
        out[static_cast<std::size_t>(r - begin) * rank + j] = static_cast<float>((sum[0] + sum[1]) + (sum[2] + sum[3]));
      }
    }
    return {};
  }

 private:
  RowSourcePtr inner_;
  std::shared_ptr<const std::vector<double>> basis_;
  std::int64_t rank_;
};

class InMemory final : public RowSource {
 public:
  InMemory(std::vector<float> values, std::int64_t columns) : values_(std::move(values)), columns_(columns) {}
  [[nodiscard]] std::int64_t rows() const override { return static_cast<std::int64_t>(values_.size()) / columns_; }
  [[nodiscard]] std::int64_t columns() const override { return columns_; }
  Result<void> read(std::int64_t begin, std::int64_t end, std::span<float> out) const override {
    std::copy_n(values_.begin() + begin * columns_, (end - begin) * columns_, out.begin());
    return {};
  }

 private:
  std::vector<float> values_;
  std::int64_t columns_;
};

}  // namespace

Result<RowSourcePtr> part_rows(const WeightPart& part, const std::string& official, const WeightDelta* delta) {
  const PlacedTensor tensor = part.find(official);
  if (!tensor.found()) return Error{ErrorCode::model, fmt::format("tensor '{}' is missing in '{}'", official, part.where()), official, ""};
  TRITIUM_TRY_ASSIGN(PartRows rows, PartRows::open(part, tensor));
  if (delta != nullptr && !delta->touches(official)) delta = nullptr;
  return RowSourcePtr(std::make_unique<PartSource>(std::move(rows), official, delta));
}

RowSourcePtr reordered_rows(RowSourcePtr inner, RowOrder order) { return std::make_unique<Reordered>(std::move(inner), std::move(order)); }

RowSourcePtr projected_rows(RowSourcePtr inner, std::shared_ptr<const std::vector<double>> basis, std::int64_t rank) {
  return std::make_unique<Projected>(std::move(inner), std::move(basis), rank);
}

RowSourcePtr memory_rows(std::vector<float> values, std::int64_t columns) { return std::make_unique<InMemory>(std::move(values), columns); }

Result<std::vector<float>> read_all(const RowSource& source) {
  std::vector<float> out(static_cast<std::size_t>(source.rows() * source.columns()));
  TRITIUM_TRY(source.read(0, source.rows(), out));
  return out;
}

RowOrder interleaved_qkv(std::int64_t heads, std::int64_t head_dim) {
  RowOrder out;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t j = 0; j < 3; ++j) out.push_back({(j * heads + h) * head_dim, head_dim});
  return out;
}

}  // namespace tritium
