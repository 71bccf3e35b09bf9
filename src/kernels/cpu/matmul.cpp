#include "kernels/cpu/matmul.h"

#include <algorithm>

#ifdef TRITIUM_HAVE_ONEDNN
#include "kernels/cpu/matmul_onednn.h"
#endif

namespace tritium::cpu {
namespace {

// Large enough that packing a weight tile is small beside its product, small enough that a few threads share the work evenly.
constexpr std::int64_t kTileRows = 512;

}  // namespace

Matmul::Matmul(const Shape& shape)
    : shape_(shape),
      tile_rows_(std::max<std::int64_t>(1, (shape.m + kTileRows - 1) / kTileRows)),
      tile_columns_(std::max<std::int64_t>(1, (shape.n + shape.max_tile_columns - 1) / shape.max_tile_columns)) {
  // Short matrices are split further along the columns, so that every thread of a common machine has something to do.
  constexpr std::int64_t kWantedTiles = 16, kSmallestColumns = 64;
  if (tile_rows_ * tile_columns_ < kWantedTiles)
    tile_columns_ = std::clamp(kWantedTiles / tile_rows_, tile_columns_, std::max(tile_columns_, shape.n / kSmallestColumns));
}

Matmul::Tile Matmul::tile(int index) const {
  const auto slice = [](std::int64_t size, std::int64_t parts, std::int64_t part) {
    // Equal parts rounded up to 16 elements, the width of a vector register; the last one takes what is left.
    const std::int64_t step = ((size + parts - 1) / parts + 15) / 16 * 16;
    const std::int64_t first = std::min(size, part * step);
    return std::pair(first, std::min(size - first, step));
  };
  const auto [row, rows] = slice(shape_.m, tile_rows_, index / tile_columns_);
  const auto [column, columns] = slice(shape_.n, tile_columns_, index % tile_columns_);
  return {row, rows, column, columns};
}

void Matmul::compute(int thread, int threads, const void* x, const void* w, const float* bias, float* y) const {
  const std::int64_t row_bytes = shape_.k * (shape_.type == MatmulType::f32 ? 4 : 2);
  for (int t = thread; t < tiles(); t += threads)
    compute_tile(t, x, static_cast<const std::uint8_t*>(w) + tile(t).column * row_bytes, bias, y);
}

Matmul::Panel Matmul::panel(int index) const {
  const Tile first = tile(index);
  return {first.column, first.columns};
}

void Matmul::compute_panel(int index, const void* x, const void* w, const float* bias, float* y) const {
  for (int t = index; t < tiles(); t += panels()) compute_tile(t, x, w, bias, y);
}

bool fast_f32() {
#ifdef TRITIUM_HAVE_ONEDNN
  return true;
#else
  return false;
#endif
}

bool fast_bf16() {
#ifdef TRITIUM_HAVE_ONEDNN
  return onednn_has_bf16();
#else
  return false;
#endif
}

std::shared_ptr<const Matmul> make_fast_matmul([[maybe_unused]] const Matmul::Shape& shape) {
#ifdef TRITIUM_HAVE_ONEDNN
  return shape.type == MatmulType::f32 || fast_bf16() ? make_onednn_matmul(shape) : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace tritium::cpu
