#include "weights/convert/prune.h"

#include "base/parallel.h"
#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>

namespace tritium {
namespace {

constexpr int kIterations = 300, kSweeps = 60, kSpareDirections = 8;

double dot(const double* a, const double* b, std::int64_t n) {
  std::array<double, 4> sum{};
  for (std::int64_t i = 0; i < n; ++i) sum[static_cast<std::size_t>(i % 4)] += a[i] * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Columns kept as rows: `count` vectors of length n, made orthonormal one after the other, twice over against rounding. A vector that is
// a combination of those before becomes zero.
void orthonormalise(std::vector<double>& vectors, std::int64_t count, std::int64_t n) {
  for (std::int64_t i = 0; i < count; ++i) {
    double* v = vectors.data() + i * n;
    const double before = std::sqrt(dot(v, v, n));
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t j = 0; j < i; ++j) {
        const double* u = vectors.data() + j * n;
        const double along = dot(v, u, n);
        for (std::int64_t k = 0; k < n; ++k) v[k] -= along * u[k];
      }
    const double length = std::sqrt(dot(v, v, n));
    const double factor = length > before * 1e-14 && length > 0 ? 1 / length : 0;
    for (std::int64_t k = 0; k < n; ++k) v[k] *= factor;
  }
}

// [count, rows] := (a·vᵢ), a: [rows, width], v: [count, width].
std::vector<double> times(std::span<const double> a, std::int64_t width, const std::vector<double>& v, std::int64_t count) {
  const std::int64_t rows = static_cast<std::int64_t>(a.size()) / width;
  std::vector<double> out(static_cast<std::size_t>(count * rows));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < count; ++i)
      out[static_cast<std::size_t>(i * rows + r)] = dot(a.data() + r * width, v.data() + i * width, width);
  return out;
}

// [count, width] := (aᵀ·yᵢ), y: [count, rows].
std::vector<double> times_transposed(std::span<const double> a, std::int64_t width, const std::vector<double>& y, std::int64_t count) {
  const std::int64_t rows = static_cast<std::int64_t>(a.size()) / width;
  std::vector<double> out(static_cast<std::size_t>(count * width));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < count; ++i) {
      const double factor = y[static_cast<std::size_t>(i * rows + r)];
      double* target = out.data() + i * width;
      for (std::int64_t k = 0; k < width; ++k) target[k] += factor * a[static_cast<std::size_t>(r * width + k)];
    }
  return out;
}

// One-sided Jacobi: turns pairs of the `count` vectors y [count, n] until all are orthogonal, and turns v [count, width] with them.
void make_orthogonal(std::vector<double>& y, std::int64_t n, std::vector<double>& v, std::int64_t width, std::int64_t count) {
  const auto turn = [](double* a, double* b, std::int64_t length, double c, double s) {
    for (std::int64_t k = 0; k < length; ++k) {
      const double x = a[k], z = b[k];
      a[k] = c * x - s * z;
      b[k] = s * x + c * z;
    }
  };
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool turned = false;
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = i + 1; j < count; ++j) {
        double *a = y.data() + i * n, *b = y.data() + j * n;
        const double aa = dot(a, a, n), bb = dot(b, b, n), ab = dot(a, b, n);
        if (std::fabs(ab) <= 1e-15 * std::sqrt(aa * bb)) continue;
        turned = true;
        const double zeta = (bb - aa) / (2 * ab);
        const double t = (zeta >= 0 ? 1.0 : -1.0) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        turn(a, b, n, c, s);
        turn(v.data() + i * width, v.data() + j * width, width, c, s);
      }
    if (!turned) return;
  }
}

// Any vectors will do to begin with; these are the same everywhere.
std::vector<double> starting_vectors(std::int64_t count, std::int64_t width) {
  std::vector<double> out(static_cast<std::size_t>(count * width));
  std::uint64_t state = 0x9E3779B97F4A7C15u;
  for (double& v : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<double>(state >> 11) * 0x1.0p-53 - 0.5;
  }
  return out;
}

// 1 − the least cosine between the spaces before and after.
double movement(const std::vector<double>& before, const std::vector<double>& after, std::int64_t count, std::int64_t width) {
  double most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    double inside = 0;
    for (std::int64_t j = 0; j < count; ++j) {
      const double part = dot(after.data() + i * width, before.data() + j * width, width);
      inside += part * part;
    }
    most = std::max(most, std::fabs(1 - inside));
  }
  return most;
}

}  // namespace

RightVectors right_singular_vectors(std::span<const double> a, std::int64_t width, std::int64_t rank) {
  const std::int64_t rows = static_cast<std::int64_t>(a.size()) / width;
  const std::int64_t count = std::min({rank + kSpareDirections, width, rows});
  std::vector<double> v = starting_vectors(count, width), y;
  orthonormalise(v, count, width);
  for (int i = 0; i < kIterations; ++i) {
    y = times(a, width, v, count);
    orthonormalise(y, count, rows);
    std::vector<double> next = times_transposed(a, width, y, count);
    orthonormalise(next, count, width);
    const double moved = movement(v, next, std::min(rank, count), width);
    v = std::move(next);
    if (moved < 1e-14 && i > 2) break;
  }
  y = times(a, width, v, count);
  make_orthogonal(y, rows, v, width, count);
  std::vector<std::pair<double, std::int64_t>> order;
  for (std::int64_t i = 0; i < count; ++i) order.emplace_back(std::sqrt(dot(y.data() + i * rows, y.data() + i * rows, rows)), i);
  std::sort(order.rbegin(), order.rend());
  RightVectors out;
  for (std::int64_t i = 0; i < std::min(rank, count); ++i) {
    const auto [value, at] = order[static_cast<std::size_t>(i)];
    out.values.push_back(value);
    out.vectors.insert(out.vectors.end(), v.begin() + at * width, v.begin() + (at + 1) * width);
  }
  return out;
}

std::vector<float> table_at(const CurveTable& curve, double t) {
  const float place = std::clamp(static_cast<float>(t), 0.0f, 1.0f) * static_cast<float>(curve.points - 1);
  const std::int64_t i = std::min(static_cast<std::int64_t>(place), curve.points - 2);
  const float part = place - static_cast<float>(i);
  std::vector<float> out(static_cast<std::size_t>(curve.rank));
  for (std::size_t j = 0; j < out.size(); ++j) {
    const float a = curve.table[static_cast<std::size_t>(i * curve.rank) + j],
                b = curve.table[static_cast<std::size_t>((i + 1) * curve.rank) + j];
    out[j] = a + part * (b - a);
  }
  return out;
}

namespace {

// The largest ‖g − V·c‖/‖g‖ over the given times.
double largest_error(const CurveTable& curve, std::span<const double> points, const std::vector<double>& g) {
  double most = 0;
  std::vector<double> rest(static_cast<std::size_t>(curve.width));
  for (std::size_t p = 0; p < points.size(); ++p) {
    const double* exact = g.data() + p * static_cast<std::size_t>(curve.width);
    std::copy_n(exact, curve.width, rest.begin());
    const std::vector<float> c = table_at(curve, points[p]);
    for (std::size_t j = 0; j < c.size(); ++j)
      for (std::size_t k = 0; k < rest.size(); ++k) rest[k] -= static_cast<double>(c[j]) * (*curve.basis)[j * rest.size() + k];
    const double length = std::sqrt(dot(exact, exact, curve.width));
    if (length > 0) most = std::max(most, std::sqrt(dot(rest.data(), rest.data(), curve.width)) / length);
  }
  return most;
}

}  // namespace

Result<CurveTable> make_curve_table(const TimeNetwork& embedder, std::int64_t rank, int threads, const CancelToken* cancel,
                                    std::int64_t points) {
  const std::int64_t width = embedder.width();
  if (rank < 1 || rank > std::min(width, points))
    return Error{ErrorCode::usage, fmt::format("the rank {} is not from 1 to {}", rank, std::min(width, points)), "prune",
                 "the usual rank is 8"};
  const std::vector<double> at = equally_spaced(points);
  std::vector<double> between;
  for (std::int64_t i = 0; i + 1 < points; ++i) between.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(points - 1));
  TRITIUM_TRY_ASSIGN(const std::vector<double> g, embedder.curve(at, threads, cancel));
  RightVectors directions = right_singular_vectors(g, width, rank);
  CurveTable out{
      points, rank, width, {}, std::make_shared<const std::vector<double>>(std::move(directions.vectors)), std::move(directions.values),
      0,      0};
  const std::vector<double> coordinates = times(g, width, *out.basis, rank);  // [rank, points]
  out.table.resize(static_cast<std::size_t>(points * rank));
  for (std::int64_t p = 0; p < points; ++p)
    for (std::int64_t j = 0; j < rank; ++j)
      out.table[static_cast<std::size_t>(p * rank + j)] = static_cast<float>(coordinates[static_cast<std::size_t>(j * points + p)]);
  TRITIUM_TRY_ASSIGN(const std::vector<double> middle, embedder.curve(between, threads, cancel));
  out.error_at_points = largest_error(out, at, g);
  out.error_between = largest_error(out, between, middle);
  return out;
}

}  // namespace tritium
