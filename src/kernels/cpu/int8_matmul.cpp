#include "kernels/cpu/int8_matmul.h"

#include "kernels/cpu/int8_tile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace tritium::cpu {
namespace {

// Packed weights of one group of columns stay in the second-level cache while rows of x pass, and these rows in the third while groups
// pass.
constexpr std::int64_t kGroupBytes = 384 << 10, kMaxDepth = 2048, kChunkRows = 1024;

}  // namespace

std::vector<const Int8Functions*> usable_int8_functions() {
  std::vector<const Int8Functions*> out;
#ifdef TRITIUM_X86_KERNELS
  if (has_avx512_vnni()) out.push_back(&kInt8Avx512);
  if (has_avx_vnni()) out.push_back(&kInt8AvxVnni);
#endif
  out.push_back(&kInt8Generic);
  return out;
}

bool fast_int8() { return usable_int8_functions().front() != &kInt8Generic; }

Int8Rows::Int8Rows(std::int64_t m, std::int64_t k, std::int64_t rotation, const Int8Functions& run)
    : m_(m), k_(k), rotation_(rotation), run_(&run) {}

std::int64_t Int8Rows::tile_rows() const { return run_->rows; }

const float* Int8Rows::scales(const std::uint8_t* quantized) const {
  return reinterpret_cast<const float*>(quantized + tiles() * tile_bytes());  // tile_bytes() is a multiple of 4
}

int Int8Rows::value(const std::uint8_t* quantized, std::int64_t row, std::int64_t column) const {
  const std::int64_t r = tile_rows();
  return quantized[row / r * tile_bytes() + (column / 4 * r + row % r) * 4 + column % 4] - 128;
}

void Int8Rows::quantize(int thread, int threads, const float* x, std::uint8_t* out) const {
  thread_local std::vector<float> row;
  thread_local std::vector<std::uint8_t> codes;
  row.resize(static_cast<std::size_t>(k_));
  codes.assign(static_cast<std::size_t>(padded_columns()), 128);
  const float factor = rotation_ > 0 ? 1.0f / std::sqrt(static_cast<float>(rotation_)) : 1.0f;  // sqrt(4^n) is a power of two: exact
  auto* scales = reinterpret_cast<float*>(out + tiles() * tile_bytes());
  for (std::int64_t tile = thread; tile < tiles(); tile += threads)
    for (std::int64_t r = 0; r < tile_rows(); ++r) {
      const std::int64_t m = tile * tile_rows() + r;
      scales[m] = 0;
      if (m < m_) {
        std::copy_n(x + m * k_, k_, row.data());
        scales[m] = run_->quantize(row.data(), k_, rotation_, factor, codes.data());
      } else {
        std::fill(codes.begin(), codes.end(), std::uint8_t{128});
      }
      std::uint8_t* place = out + tile * tile_bytes() + r * 4;
      for (std::int64_t k = 0; k < padded_columns(); k += 4, place += tile_rows() * 4) std::memcpy(place, codes.data() + k, 4);
    }
}

Int8Matmul::Int8Matmul(std::int64_t n, Decode decode, Int8Rows input) : n_(n), decode_(std::move(decode)), input_(input), plan_(plan()) {}

Int8Matmul::Plan Int8Matmul::plan() const {
  const std::int64_t columns = input_.functions().columns, depth = input_.padded_columns();
  Plan out;
  const std::int64_t parts = (depth + kMaxDepth - 1) / kMaxDepth;
  out.depth = ((depth + parts - 1) / parts + 63) / 64 * 64;
  out.columns = std::max<std::int64_t>(1, kGroupBytes / (out.depth * columns)) * columns;
  out.groups = (n_ + out.columns - 1) / out.columns;
  const std::int64_t wanted = std::max<std::int64_t>(1, (input_.rows() + kChunkRows / 2) / kChunkRows);
  out.tiles = (input_.tiles() + wanted - 1) / wanted;
  out.chunks = (input_.tiles() + out.tiles - 1) / out.tiles;
  return out;
}

int Int8Matmul::units() const { return static_cast<int>(plan_.chunks * plan_.groups); }

// Of one thread, kept for the next groups.
struct Int8Matmul::Scratch {
  std::vector<std::int8_t> rows, packed;
  std::vector<std::int32_t> offsets, sums;
  std::vector<float> scale, bias, corner;
};

void Int8Matmul::compute(int thread, int threads, const std::uint8_t* x, const std::uint8_t* w, const float* row_scale, const float* bias,
                         float* y) const {
  thread_local Scratch scratch;
  const Int8Functions& run = input_.functions();
  const auto columns = static_cast<std::size_t>(plan_.columns), depth = static_cast<std::size_t>(input_.padded_columns());
  scratch.rows.assign(columns * depth, 0);
  scratch.packed.resize(columns * static_cast<std::size_t>(plan_.depth));
  scratch.sums.resize(static_cast<std::size_t>(plan_.tiles * run.rows) * columns);
  scratch.corner.resize(static_cast<std::size_t>(run.rows * run.columns));
  for (std::int64_t unit = thread; unit < units(); unit += threads) {
    const std::int64_t first = unit % plan_.groups * plan_.columns, count = std::min(plan_.columns, n_ - first);
    scratch.offsets.assign(columns, 0);
    scratch.scale.assign(columns, 0.0f);
    scratch.bias.assign(columns, 0.0f);
    std::copy_n(row_scale + first, count, scratch.scale.begin());
    if (bias != nullptr) std::copy_n(bias + first, count, scratch.bias.begin());
    decode_(first, first + count, w, input_.padded_columns(), scratch.rows.data());
    std::fill(scratch.rows.begin() + count * input_.padded_columns(), scratch.rows.end(), std::int8_t{0});
    const std::int64_t tile = unit / plan_.groups * plan_.tiles, tiles = std::min(plan_.tiles, input_.tiles() - tile);
    multiply(tile, tiles, count, x, scratch);
    finish(tile, tiles, first, count, input_.scales(x), bias != nullptr, y, scratch);
  }
}

void Int8Matmul::multiply(std::int64_t first_tile, std::int64_t tiles, std::int64_t count, const std::uint8_t* x, Scratch& scratch) const {
  const Int8Functions& run = input_.functions();
  const std::int64_t whole = input_.padded_columns();
  for (std::int64_t k = 0; k < whole; k += plan_.depth) {
    const std::int64_t depth = std::min(plan_.depth, whole - k);
    for (std::int64_t column = 0; column < count; column += run.columns)
      run.pack(scratch.rows.data() + column * whole + k, whole, depth, scratch.packed.data() + column * depth,
               scratch.offsets.data() + column);
    std::int32_t* sums = scratch.sums.data();
    for (std::int64_t tile = first_tile; tile < first_tile + tiles; ++tile)
      for (std::int64_t column = 0; column < count; column += run.columns, sums += run.rows * run.columns)
        run.multiply(x + tile * input_.tile_bytes() + k * run.rows, scratch.packed.data() + column * depth, depth, sums, k > 0);
  }
}

void Int8Matmul::finish(std::int64_t first_tile, std::int64_t tiles, std::int64_t first, std::int64_t count, const float* scales,
                        bool with_bias, float* y, Scratch& scratch) const {
  const Int8Functions& run = input_.functions();
  const std::int32_t* sums = scratch.sums.data();
  for (std::int64_t tile = first_tile; tile < first_tile + tiles; ++tile)
    for (std::int64_t column = 0; column < count; column += run.columns, sums += run.rows * run.columns) {
      const std::int64_t m = tile * run.rows, width = std::min(run.columns, count - column), height = std::min(run.rows, input_.rows() - m);
      const Int8Columns columns{scratch.offsets.data() + column, scratch.scale.data() + column,
                                with_bias ? scratch.bias.data() + column : nullptr};
      float* place = y + m * n_ + first + column;
      if (width == run.columns && height == run.rows) {
        run.finish(sums, scales + m, columns, place, n_);
        continue;
      }
      run.finish(sums, scales + m, columns, scratch.corner.data(), run.columns);
      for (std::int64_t r = 0; r < height; ++r) std::copy_n(scratch.corner.data() + r * run.columns, width, place + r * n_);
    }
}

}  // namespace tritium::cpu
