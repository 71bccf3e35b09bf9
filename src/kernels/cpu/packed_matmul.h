// y[M,N] = x[M,K] · w[N,K]ᵀ + bias[N] with the rows of w made when they are needed: a panel of rows is decoded, then multiplied with all
// rows of x. Every row is decoded once. Same bits for every number of threads.
#pragma once

#include "kernels/cpu/matmul.h"
#include "weights/quant/packed_rows.h"

#include <functional>

namespace tritium::cpu {

class PackedMatmul {
 public:
  // Writes rows [first, first + count) of w, dense and of the product's type, from the bytes of all rows. Called by several threads at
  // once.
  using Decode = std::function<void(std::int64_t first, std::int64_t count, const std::uint8_t* bytes, void* out)>;

  // Falls back to the plain product where there is no fast one, or if `plain`. The shape's max_tile_columns is chosen here.
  PackedMatmul(Matmul::Shape shape, Decode decode, bool plain = false);

  [[nodiscard]] int panels() const { return product_->panels(); }
  // The body of one worker. `bytes`: all stored rows.
  void compute(int thread, int threads, const void* x, const std::uint8_t* bytes, const float* bias, float* y) const;

 private:
  Matmul::Shape shape_;
  Decode decode_;
  std::shared_ptr<const Matmul> product_;
};

// U as a weight file stores it, as float32 or rounded to bfloat16.
PackedMatmul::Decode decode_packed(std::shared_ptr<const PackedRows> packed, MatmulType type);
// Rows of bfloat16 as float32.
PackedMatmul::Decode widen_bf16(std::int64_t columns);

}  // namespace tritium::cpu
