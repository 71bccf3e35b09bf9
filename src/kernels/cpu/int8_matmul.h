// y[M,N] = (rot(x)[M,K] · q[N,K]ᵀ) ⊙ row_scale + bias with 8-bit integers on both sides, the linear layer of ConvRot models as their
// reference computes it (spec/weights.md §4.2):
//
//   xr = rot(x), s[m] = max(max |xr[m,:]| / 127, 1e-30), xq = round(xr / s), y = (xq · qᵀ) · (s[m] · row_scale[n]) + bias[n]
//
// The sum over K is exact in 32-bit integers. quantize() makes xq, which products of the same input may share; compute() packs a group of
// rows of q and multiplies it with all of xq. Same bits for every number of threads, and on every machine that fuses alike.
#pragma once

#include "kernels/cpu/simd.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace tritium::cpu {

struct Int8Functions;

// The inner loops that this machine can run, best first; the portable ones are always last.
std::vector<const Int8Functions*> usable_int8_functions();

// Whether this machine multiplies 8-bit integers faster than bfloat16: worth quantizing the input for.
bool fast_int8();

// x, quantized row by row: tiles of rows in the order of the product, then one scale a row.
class Int8Rows {
 public:
  // `rotation`: ConvRot group, 0 for none; divides k.
  Int8Rows(std::int64_t m, std::int64_t k, std::int64_t rotation, const Int8Functions& run = *usable_int8_functions().front());

  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(tiles() * tile_bytes() + tiles() * tile_rows() * 4); }
  [[nodiscard]] int units() const { return static_cast<int>(tiles()); }
  // The body of one worker. x: dense [m][k]. A row that holds a value that is not finite gets a scale that is not.
  void quantize(int thread, int threads, const float* x, std::uint8_t* out) const;

  [[nodiscard]] std::int64_t rows() const { return m_; }
  [[nodiscard]] std::int64_t columns() const { return k_; }
  [[nodiscard]] std::int64_t padded_columns() const { return (k_ + 3) / 4 * 4; }
  [[nodiscard]] std::int64_t tile_rows() const;
  [[nodiscard]] std::int64_t tiles() const { return (m_ + tile_rows() - 1) / tile_rows(); }
  [[nodiscard]] std::int64_t tile_bytes() const { return tile_rows() * padded_columns(); }
  [[nodiscard]] const Int8Functions& functions() const { return *run_; }
  [[nodiscard]] const float* scales(const std::uint8_t* quantized) const;
  // Of one element, as the signed integer: for tests.
  [[nodiscard]] int value(const std::uint8_t* quantized, std::int64_t row, std::int64_t column) const;

 private:
  std::int64_t m_, k_, rotation_;
  const Int8Functions* run_;
};

class Int8Matmul {
 public:
  // Writes rows [begin, end) of q, `stride` bytes apart, from all stored rows. Called by several threads at once.
  using Decode =
      std::function<void(std::int64_t begin, std::int64_t end, const std::uint8_t* stored, std::int64_t stride, std::int8_t* out)>;
  Int8Matmul(std::int64_t n, Decode decode, Int8Rows input);

  [[nodiscard]] int units() const;
  // The body of one worker. `x`: what quantize() made; `w`: what Decode is given; `row_scale` [N], `bias` [N] or null.
  void compute(int thread, int threads, const std::uint8_t* x, const std::uint8_t* w, const float* row_scale, const float* bias,
               float* y) const;

 private:
  struct Plan {
    std::int64_t depth, columns, groups, tiles, chunks;  // terms at a time; columns of a group; tiles of rows of a chunk
  };
  struct Scratch;
  [[nodiscard]] Plan plan() const;
  // The products of some tiles of rows with `count` columns, whose weights lie in the scratch.
  void multiply(std::int64_t first_tile, std::int64_t tiles, std::int64_t count, const std::uint8_t* x, Scratch& scratch) const;
  void finish(std::int64_t first_tile, std::int64_t tiles, std::int64_t first, std::int64_t count, const float* scales, bool with_bias,
              float* y, Scratch& scratch) const;

  std::int64_t n_;
  Decode decode_;
  Int8Rows input_;
  Plan plan_;
};

}  // namespace tritium::cpu
