// The inner loops of the product of 8-bit integers; one set of them per instruction set, see simd.h.
#pragma once

#include <cstdint>

namespace tritium::cpu {

// Of the columns of one tile of the product.
struct Int8Columns {
  const std::int32_t* offset;  // 128 times the sum of the column's weights: activations are stored with 128 added
  const float* scale;
  const float* bias;  // or null
};

struct Int8Functions {
  const char* name;
  std::int64_t rows, columns;  // of one tile
  // One row in place: ConvRot (group > 0) without its factor 1/sqrt(group), which `factor` holds; then to 8 bits with 128 added. Returns
  // the scale.
  float (*quantize)(float* row, std::int64_t count, std::int64_t group, float factor, std::uint8_t* out);
  // `columns` rows of weights, `stride` bytes apart and `depth` long, a multiple of 4, to [depth/4][columns][4]; adds to their
  // offsets.
  void (*pack)(const std::int8_t* rows, std::int64_t stride, std::int64_t depth, std::int8_t* out, std::int32_t* offsets);
  // sums[rows][columns] = (add ? sums : 0) + a [depth/4][rows][4] times b [depth/4][columns][4].
  void (*multiply)(const std::uint8_t* a, const std::int8_t* b, std::int64_t depth, std::int32_t* sums, bool add);
  // y[rows][columns] of the whole sums; `scales` of the rows.
  void (*finish)(const std::int32_t* sums, const float* scales, const Int8Columns& columns, float* y, std::int64_t stride);
};

extern const Int8Functions kInt8Generic, kInt8AvxVnni, kInt8Avx512;

}  // namespace tritium::cpu
