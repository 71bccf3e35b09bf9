// The integer path of the reference for int8 grids (spec/weights.md §4.2), in plain loops: the yardstick for kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tritium {

struct QuantizedRows {
  std::vector<std::int8_t> values;  // [M, K]
  std::vector<float> scale;         // [M]
};

// Each row of x [M, K] (rotated, if the weights are): scale = max(absmax/127, 1e-30), values = clamp(rne(x/scale), -128, 127).
// Precondition: K divides x.size().
QuantizedRows quantize_rows(std::span<const float> x, std::int64_t columns);

// x [M, K] · wᵀ [N, K] -> [M, N], exact.
std::vector<std::int32_t> multiply_int8(std::span<const std::int8_t> x, std::span<const std::int8_t> w, std::int64_t columns);

// y[m, n] = acc·(x_scale[m]·w_scale[n]) + bias[n]; w_scale: [N]; bias: [N] or empty.
std::vector<float> scale_products(std::span<const std::int32_t> acc, std::span<const float> x_scale, std::span<const float> w_scale,
                                  std::span<const float> bias);

}  // namespace tritium
