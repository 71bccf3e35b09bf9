// y[M,N] = x[M,K] · U[N,K]ᵀ + bias[N] with the rows of U packed as a weight file stores them: a panel of rows is decoded, then multiplied
// with all rows of x. Every row is decoded once. Same bits for every number of threads.
#pragma once

#include "kernels/cpu/matmul.h"
#include "weights/quant/packed_rows.h"

namespace tritium::cpu {

class PackedMatmul {
 public:
  // x is of `type`, and U is rounded to it. `packed` is kept alive. Falls back to the plain product where there is no fast one, or if
  // `plain`.
  PackedMatmul(std::shared_ptr<const PackedRows> packed, std::int64_t m, MatmulType type, bool bias, bool plain = false);

  [[nodiscard]] int panels() const { return product_->panels(); }
  // The body of one worker. `bytes`: all stored rows.
  void compute(int thread, int threads, const void* x, const std::uint8_t* bytes, const float* bias, float* y) const;

 private:
  std::shared_ptr<const PackedRows> packed_;
  MatmulType type_;
  std::shared_ptr<const Matmul> product_;
};

}  // namespace tritium::cpu
