#include "weights/quant/rotation.h"

#include <cmath>

namespace tritium {
namespace {

// Quadruples of values at four places, without the factor 1/2: b_j = a_0+a_1+a_2+a_3 - 2·a_{3-j}.
void quadruples(float* __restrict a0, float* __restrict a1, float* __restrict a2, float* __restrict a3, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float v0 = a0[i], v1 = a1[i], v2 = a2[i], v3 = a3[i];
    const float sum = (v0 + v1) + (v2 + v3);
    a0[i] = sum - 2 * v3;
    a1[i] = sum - 2 * v2;
    a2[i] = sum - 2 * v1;
    a3[i] = sum - 2 * v0;
  }
}

// One stage: the quadruples at distance `stride`.
void stage(float* values, std::int64_t count, std::int64_t stride) {
  for (float* v = values; v < values + count; v += 4 * stride) quadruples(v, v + stride, v + 2 * stride, v + 3 * stride, stride);
}

// The stage of stride 1, written over neighbours: the form compilers make vectors of.
void first_stage(float* values, std::int64_t count) {
  for (std::int64_t q = 0; q < count / 4; ++q) {
    const float v0 = values[4 * q], v1 = values[4 * q + 1], v2 = values[4 * q + 2], v3 = values[4 * q + 3];
    const float sum = (v0 + v1) + (v2 + v3);
    values[4 * q] = sum - 2 * v3;
    values[4 * q + 1] = sum - 2 * v2;
    values[4 * q + 2] = sum - 2 * v1;
    values[4 * q + 3] = sum - 2 * v0;
  }
}

}  // namespace

bool is_rotation_group(std::int64_t group) {
  std::int64_t power = 4;
  while (power < group) power *= 4;
  return power == group;
}

void rotate(std::span<float> values, std::int64_t group, float factor) {
  const auto count = static_cast<std::int64_t>(values.size());
  first_stage(values.data(), count);
  for (std::int64_t first = 0; first < count; first += group)
    for (std::int64_t stride = 4; stride < group; stride *= 4) stage(values.data() + first, group, stride);
  const float last = factor / std::sqrt(static_cast<float>(group));  // sqrt(4^n) is a power of two: exact
  for (float& value : values) value *= last;
}

}  // namespace tritium
