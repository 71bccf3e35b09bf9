// From the stored bytes of one row to float32 (spec/weights.md §4). Plain loops over contiguous memory.
#pragma once

#include "weights/quant/side_values.h"

namespace tritium {

// Formats whose codes, times a scale per row, are the weights in the (possibly rotated) basis.
[[nodiscard]] bool has_integer_grid(const QuantDescription& quant);

// The integers of row `row`, as floats: int8, w4a8, w6a8 (after their rounding to the grid), w4a4. `bytes` is the stored row; out: [K].
// Precondition: has_integer_grid.
void grid_row(const QuantDescription& quant, const SideValues& sides, std::int64_t row, std::span<const std::uint8_t> bytes,
              std::span<float> out);

// The weights of row `row` in the basis the model computes in; out: [K] or fewer columns of nvfp4. Not for NF4.
void decode_row(const QuantDescription& quant, const SideValues& sides, std::int64_t row, std::span<const std::uint8_t> bytes,
                std::span<float> out);

// NF4 weights from `first` on, counted through the flattened matrix; `bytes` begin with the one that holds it.
void decode_nf4(const QuantDescription& quant, const SideValues& sides, std::int64_t first, std::span<const std::uint8_t> bytes,
                std::span<float> out);

}  // namespace tritium
