// Computing long activations in slices of rows, so that intermediate results stay small.
#pragma once

#include "device/graph.h"

#include <algorithm>

namespace tritium::ops {

// Applies `compute` (ggml_tensor* of [features, n] -> [out, n]) to at most `max_rows` rows of x [features, rows] at a time and joins the
// results. Exact for functions that treat rows independently.
template <class Compute>
ggml_tensor* by_rows(Graph& graph, ggml_tensor* x, std::int64_t max_rows, Compute compute) {
  if (x->ne[1] <= max_rows) return compute(x);
  ggml_tensor* joined = nullptr;
  for (std::int64_t first = 0; first < x->ne[1]; first += max_rows) {
    const std::int64_t rows = std::min(max_rows, x->ne[1] - first);
    ggml_tensor* slice = ggml_view_2d(graph.context(), x, x->ne[0], rows, x->nb[1], static_cast<std::size_t>(first) * x->nb[1]);
    ggml_tensor* part = compute(slice);
    joined = joined == nullptr ? part : ggml_concat(graph.context(), joined, part, 1);
  }
  return joined;
}

}  // namespace tritium::ops
