#include "weights/quant/reference.h"

#include <algorithm>
#include <cmath>

namespace tritium {

QuantizedRows quantize_rows(std::span<const float> x, std::int64_t columns) {
  const auto width = static_cast<std::size_t>(columns);
  QuantizedRows out;
  out.values.reserve(x.size());
  for (std::size_t at = 0; at < x.size(); at += width) {
    const std::span<const float> row = x.subspan(at, width);
    float absmax = 0;
    for (const float v : row) absmax = std::max(absmax, std::abs(v));
    const float scale = std::max(absmax / 127.0f, 1e-30f);
    out.scale.push_back(scale);
    for (const float v : row) out.values.push_back(static_cast<std::int8_t>(std::clamp(std::nearbyint(v / scale), -128.0f, 127.0f)));
  }
  return out;
}

std::vector<std::int32_t> multiply_int8(std::span<const std::int8_t> x, std::span<const std::int8_t> w, std::int64_t columns) {
  const auto width = static_cast<std::size_t>(columns);
  std::vector<std::int32_t> out;
  out.reserve(x.size() / width * (w.size() / width));
  for (std::size_t m = 0; m < x.size(); m += width)
    for (std::size_t n = 0; n < w.size(); n += width) {
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < width; ++k) sum += static_cast<std::int32_t>(x[m + k]) * static_cast<std::int32_t>(w[n + k]);
      out.push_back(sum);
    }
  return out;
}

std::vector<float> scale_products(std::span<const std::int32_t> acc, std::span<const float> x_scale, std::span<const float> w_scale,
                                  std::span<const float> bias) {
  std::vector<float> out(acc.size());
  for (std::size_t m = 0; m < x_scale.size(); ++m)
    for (std::size_t n = 0; n < w_scale.size(); ++n) {
      const std::size_t i = m * w_scale.size() + n;
      out[i] = static_cast<float>(acc[i]) * (x_scale[m] * w_scale[n]);
      if (!bias.empty()) out[i] += bias[n];
    }
  return out;
}

}  // namespace tritium
