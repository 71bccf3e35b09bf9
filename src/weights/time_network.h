// The time embedder of a full transformer outside the engine: for pruning, and for what was made for the full model (spec/dit.md §3, §4.3).
#pragma once

#include "base/cancel.h"
#include "weights/checkpoint.h"

#include <optional>

namespace tritium {

// g(t) = silu(W2·silu(W1·sinusoid(t) + b1) + b2), rows of the matrices are outputs.
struct TimeNetwork {
  std::vector<float> in_weight, in_bias;    // [hidden, sinusoid], [hidden]
  std::vector<float> out_weight, out_bias;  // [width, hidden], [width]

  [[nodiscard]] std::int64_t hidden() const { return static_cast<std::int64_t>(in_bias.size()); }
  [[nodiscard]] std::int64_t width() const { return static_cast<std::int64_t>(out_bias.size()); }
  [[nodiscard]] std::int64_t sinusoid() const { return static_cast<std::int64_t>(in_weight.size()) / hidden(); }

  // g(t) for each t, in double precision: [times, width]. Error: interrupted.
  Result<std::vector<double>> curve(std::span<const double> times, int threads, const CancelToken* cancel) const;
};

// `points` times from 0 to 1, equally spaced. Precondition: points > 1.
std::vector<double> equally_spaced(std::int64_t points);

// The tensors time_embedder.proj_in and proj_out, or linear_1 and linear_2, with any of the usual prefixes. None without them; errors
// (code model) for shapes that do not fit and values that are not finite.
Result<std::optional<TimeNetwork>> read_time_network(const Checkpoint& checkpoint);

}  // namespace tritium
