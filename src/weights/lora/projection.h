// From the wide input of a full model's adaLN layers to the narrow one of a pruned model (spec/dit.md §3, §13.4).
//
// A full model feeds its adaLN layers g(t) = silu(time embedding) of `width` values. A pruned one keeps c(t) of `rank` values in a table
// over t, with g(t) ≈ V·c(t) (+ m in centred tables). So A·g = (A·V)·c (+ A·m).
#pragma once

#include "weights/checkpoint.h"

#include <memory>
#include <span>

namespace tritium {

struct AdalnBasis {
  std::int64_t width = 0, rank = 0;
  std::vector<float> v;     // [width, rank]
  std::vector<float> mean;  // m [width]; empty: the table is not centred
  double error = 0;         // of V·c (+ m) against g over the table, relative; 0 when the basis was stored in a file
};

// The tensors "adaln_basis" [rank, width] and, optionally, "adaln_mean" [width] of a file. None without the former.
// Errors (code model) name the tensor.
Result<std::optional<AdalnBasis>> read_adaln_basis(const Checkpoint& checkpoint);

// The basis from both sides of the equation: the pruned model's table [points, rank] and g [points, width] of the full model at the same
// points. Least squares in double precision; centred only where the table cannot do without. Error (code model): they do not belong
// together, that is, g is not a linear image of the table.
Result<AdalnBasis> fit_adaln_basis(std::span<const float> table, std::span<const float> g, std::int64_t points);

// A [r, width] -> A·V [r, rank]. Precondition: a.size() is a multiple of the width.
std::vector<float> project_down(const AdalnBasis& basis, std::span<const float> a);
// What a centred table adds to the layer's bias: B·(A·m) for B [out, r]; empty when it adds nothing.
std::vector<float> projected_bias(const AdalnBasis& basis, std::span<const float> a, std::span<const float> b);

}  // namespace tritium
