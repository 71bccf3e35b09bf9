// The curve table of pruned transformers (spec/dit.md §3): g(t) = silu(time_embedder(t)) lies, nearly, in a space of few dimensions.
// With V its first directions, W·g(t) = (W·V)·(Vᵀ·g(t)); the table holds Vᵀ·g at equally spaced t.
#pragma once

#include "weights/time_network.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tritium {

inline constexpr std::int64_t kCurvePoints = 1025, kCurveRank = 8;

struct CurveTable {
  std::int64_t points = 0, rank = 0, width = 0;
  std::vector<float> table;                          // [points, rank]
  std::shared_ptr<const std::vector<double>> basis;  // Vᵀ: [rank, width], orthonormal rows
  std::vector<double> singular_values;               // [rank], descending

  // ‖g − V·c‖/‖g‖ with c as the engine reads it from the table: the largest over the points, and over the middles between them, where
  // the table is interpolated.
  double error_at_points = 0, error_between = 0;
};

// Error code usage, field prune: a rank that is not from 1 to the width of the embedding.
Result<CurveTable> make_curve_table(const TimeNetwork& embedder, std::int64_t rank, int threads, const CancelToken* cancel,
                                    std::int64_t points = kCurvePoints);

// c(t) as the engine computes it: linear between the points, in float32. t in [0, 1].
std::vector<float> table_at(const CurveTable& curve, double t);

// The first `rank` right singular vectors of a [rows, width] and its singular values, by subspace iteration: [rank, width].
struct RightVectors {
  std::vector<double> vectors, values;
};
RightVectors right_singular_vectors(std::span<const double> a, std::int64_t width, std::int64_t rank);

}  // namespace tritium
