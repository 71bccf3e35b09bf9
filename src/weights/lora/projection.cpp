#include "weights/lora/projection.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

constexpr double kGoodFit = 1e-3;  // relative error of a table of the same model; rank 8 of the released one: below 5e-4

Error bad(std::string message, std::string field) { return Error{ErrorCode::model, std::move(message), std::move(field), ""}; }

std::size_t at(std::int64_t row, std::int64_t column, std::int64_t columns) { return static_cast<std::size_t>(row * columns + column); }

// Orthonormal columns Q [rows, n] and R [n, n] of a matrix given by columns; columns that add nothing become zero (twice is enough:
// the second pass takes away what rounding left in the first).
struct Factors {
  std::vector<std::vector<double>> q, r;
};
Factors factorise(std::vector<std::vector<double>> columns) {
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  const std::size_t n = columns.size();
  Factors out{{}, std::vector<std::vector<double>>(n, std::vector<double>(n, 0.0))};
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<double> column = std::move(columns[j]);
    const double length = std::sqrt(dot(column, column));
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t i = 0; i < j; ++i) {
        const double share = dot(out.q[i], column);
        out.r[i][j] += share;
        for (std::size_t k = 0; k < column.size(); ++k) column[k] -= share * out.q[i][k];
      }
    const double rest = std::sqrt(dot(column, column));
    const bool new_direction = rest > 1e-12 * length;
    out.r[j][j] = new_direction ? rest : 0.0;
    for (double& value : column) value = new_direction ? value / rest : 0.0;
    out.q.push_back(std::move(column));
  }
  return out;
}

// x [n, width] that makes columns·x nearest to g [points, width]; the squared error and size of g are added up.
struct Fit {
  std::vector<std::vector<double>> x;
  double error = 0;
};
Fit least_squares(const Factors& f, std::span<const float> g, std::int64_t width) {
  const std::size_t n = f.q.size(), points = f.q.front().size();
  Fit out{std::vector<std::vector<double>>(n, std::vector<double>(static_cast<std::size_t>(width), 0.0)), 0};
  double error = 0, size = 0;
  std::vector<double> target(points), share(n);
  for (std::int64_t column = 0; column < width; ++column) {
    for (std::size_t i = 0; i < points; ++i) {
      target[i] = g[at(static_cast<std::int64_t>(i), column, width)];
      size += target[i] * target[i];
    }
    for (std::size_t j = 0; j < n; ++j) {
      share[j] = 0;
      for (std::size_t i = 0; i < points; ++i) share[j] += f.q[j][i] * target[i];
      for (std::size_t i = 0; i < points; ++i) target[i] -= share[j] * f.q[j][i];
    }
    for (const double rest : target) error += rest * rest;
    for (std::size_t j = n; j-- > 0;) {
      double sum = share[j];
      for (std::size_t k = j + 1; k < n; ++k) sum -= f.r[j][k] * out.x[k][static_cast<std::size_t>(column)];
      out.x[j][static_cast<std::size_t>(column)] = f.r[j][j] == 0 ? 0 : sum / f.r[j][j];
    }
  }
  out.error = size == 0 ? 0 : std::sqrt(error / size);
  return out;
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

Result<std::vector<float>> read_shaped(const Checkpoint& checkpoint, const std::string& name, const std::vector<std::int64_t>& shape) {
  const TensorInfo* tensor = checkpoint.find(name);
  if (tensor == nullptr) return bad("the tensor is missing", name);
  if (tensor->shape != shape) return bad(fmt::format("it is {}, expected {}", shape_text(tensor->shape), shape_text(shape)), name);
  TRITIUM_TRY_ASSIGN(std::vector<float> values, checkpoint.read_f32(*tensor));
  if (!all_finite(values)) return bad("it holds values that are not finite", name);
  return values;
}

}  // namespace

Result<std::optional<AdalnBasis>> read_adaln_basis(const Checkpoint& checkpoint) {
  const TensorInfo* basis = checkpoint.find("adaln_basis");
  if (basis == nullptr) return std::optional<AdalnBasis>();
  if (basis->shape.size() != 2 || basis->shape[0] < 1 || basis->shape[1] < basis->shape[0])
    return bad(fmt::format("it is {}, expected [rank, width] with rank <= width", shape_text(basis->shape)), "adaln_basis");
  AdalnBasis out{basis->shape[1], basis->shape[0], {}, {}, 0};
  TRITIUM_TRY_ASSIGN(const std::vector<float> stored, read_shaped(checkpoint, "adaln_basis", basis->shape));
  out.v.resize(stored.size());
  for (std::int64_t k = 0; k < out.rank; ++k)
    for (std::int64_t i = 0; i < out.width; ++i) out.v[at(i, k, out.rank)] = stored[at(k, i, out.width)];
  if (checkpoint.find("adaln_mean") != nullptr) { TRITIUM_TRY_ASSIGN(out.mean, read_shaped(checkpoint, "adaln_mean", {out.width})); }
  return std::optional(std::move(out));
}

Result<AdalnBasis> fit_adaln_basis(std::span<const float> table, std::span<const float> g, std::int64_t points) {
  const std::int64_t rank = points < 1 ? 0 : static_cast<std::int64_t>(table.size()) / points;
  const std::int64_t width = points < 1 ? 0 : static_cast<std::int64_t>(g.size()) / points;
  if (rank < 1 || width < rank || points <= rank || static_cast<std::int64_t>(table.size()) != rank * points ||
      static_cast<std::int64_t>(g.size()) != width * points)
    return bad(fmt::format("a table of {} values and a curve of {} do not fit {} points", table.size(), g.size(), points), "adaln_t_table");
  std::vector<std::vector<double>> columns;
  for (std::int64_t k = 0; k < rank; ++k) {
    columns.emplace_back();
    for (std::int64_t i = 0; i < points; ++i) columns.back().push_back(table[at(i, k, rank)]);
  }
  Fit fit = least_squares(factorise(columns), g, width);
  bool centred = false;
  if (!(fit.error <= kGoodFit)) {
    columns.emplace_back(static_cast<std::size_t>(points), 1.0);
    fit = least_squares(factorise(std::move(columns)), g, width);
    centred = true;
  }
  if (!(fit.error <= kGoodFit))
    return bad(fmt::format("the time embedder is that of another model: the curve table explains it up to {:.1e} only (at most {:g})",
                           fit.error, kGoodFit),
               "adaln_t_table");
  AdalnBasis out{width, rank, std::vector<float>(static_cast<std::size_t>(width * rank)), {}, fit.error};
  for (std::int64_t i = 0; i < width; ++i)
    for (std::int64_t k = 0; k < rank; ++k)
      out.v[at(i, k, rank)] = static_cast<float>(fit.x[static_cast<std::size_t>(k)][static_cast<std::size_t>(i)]);
  if (centred) out.mean.assign(fit.x.back().begin(), fit.x.back().end());
  return out;
}

std::vector<float> project_down(const AdalnBasis& basis, std::span<const float> a) {
  const std::int64_t rows = static_cast<std::int64_t>(a.size()) / basis.width;
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(rows * basis.rank));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t k = 0; k < basis.rank; ++k) {
      double sum = 0;
      for (std::int64_t i = 0; i < basis.width; ++i)
        sum += static_cast<double>(a[at(row, i, basis.width)]) * static_cast<double>(basis.v[at(i, k, basis.rank)]);
      out.push_back(static_cast<float>(sum));
    }
  return out;
}

std::vector<float> projected_bias(const AdalnBasis& basis, std::span<const float> a, std::span<const float> b) {
  if (basis.mean.empty()) return {};
  const std::int64_t rank = static_cast<std::int64_t>(a.size()) / basis.width;
  std::vector<double> through(static_cast<std::size_t>(rank), 0.0);
  for (std::int64_t r = 0; r < rank; ++r)
    for (std::int64_t i = 0; i < basis.width; ++i)
      through[static_cast<std::size_t>(r)] +=
          static_cast<double>(a[at(r, i, basis.width)]) * static_cast<double>(basis.mean[static_cast<std::size_t>(i)]);
  std::vector<float> out(b.size() / static_cast<std::size_t>(rank));
  for (std::size_t row = 0; row < out.size(); ++row) {
    double sum = 0;
    for (std::size_t r = 0; r < through.size(); ++r) sum += static_cast<double>(b[row * through.size() + r]) * through[r];
    out[row] = static_cast<float>(sum);
  }
  return out;
}

}  // namespace tritium
