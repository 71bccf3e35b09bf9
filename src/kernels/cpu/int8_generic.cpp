#include "kernels/cpu/int8_tile.h"
#include "weights/quant/rotation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tritium::cpu {
namespace {

constexpr int kRows = 4, kColumns = 16;

float quantize(float* row, std::int64_t count, std::int64_t group, float factor, std::uint8_t* out) {
  float top = 0;
  bool number = true;
  if (group > 0) rotate({row, static_cast<std::size_t>(count)}, group, factor * std::sqrt(static_cast<float>(group)));
  for (std::int64_t i = 0; i < count; ++i) {
    if (group == 0) row[i] *= factor;
    top = std::max(top, std::abs(row[i]));
    number = number && !std::isnan(row[i]);
  }
  const float scale = std::max(top / 127.0f, 1e-30f);
  if (!number || !std::isfinite(scale)) {
    std::fill_n(out, count, std::uint8_t{128});
    return std::numeric_limits<float>::quiet_NaN();
  }
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = static_cast<std::uint8_t>(128 + std::clamp(static_cast<int>(std::nearbyint(row[i] / scale)), -128, 127));
  return scale;
}

void pack(const std::int8_t* rows, std::int64_t stride, std::int64_t depth, std::int8_t* out, std::int32_t* offsets) {
  for (std::int64_t k = 0; k < depth; k += 4)
    for (int column = 0; column < kColumns; ++column)
      for (int i = 0; i < 4; ++i) {
        const std::int8_t value = rows[column * stride + k + i];
        *out++ = value;
        offsets[column] += 128 * value;
      }
}

void multiply(const std::uint8_t* a, const std::int8_t* b, std::int64_t depth, std::int32_t* sums, bool add) {
  if (!add) std::fill_n(sums, kRows * kColumns, 0);
  for (std::int64_t k = 0; k < depth; k += 4, a += kRows * 4, b += kColumns * 4)
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kColumns; ++c)
        for (int i = 0; i < 4; ++i) sums[r * kColumns + c] += a[r * 4 + i] * b[c * 4 + i];
}

void finish(const std::int32_t* sums, const float* scales, const Int8Columns& columns, float* y, std::int64_t stride) {
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) {
      const float value = static_cast<float>(sums[r * kColumns + c] - columns.offset[c]) * (scales[r] * columns.scale[c]);
      y[r * stride + c] = columns.bias != nullptr ? value + columns.bias[c] : value;
    }
}

}  // namespace

const Int8Functions kInt8Generic{"generic", kRows, kColumns, quantize, pack, multiply, finish};

}  // namespace tritium::cpu
