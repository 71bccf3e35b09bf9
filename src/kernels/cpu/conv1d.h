// One-dimensional convolution with stride 1 and zero padding in float32, without unfolding the input.
//
// y[o][t] = bias[o] + sum over i, k of w[o][i][k] · x[i][t + k·dilation - padding]. Every output value is accumulated by one thread in a
// fixed order, so the result has the same bits for every number of threads.
#pragma once

#include "kernels/cpu/simd.h"

#include <cstdint>

namespace tritium::cpu {

struct Conv1dShape {
  std::int64_t in = 0, out = 0, kernel = 0, length = 0;  // length of the input
  std::int64_t padding = 0, dilation = 1;

  [[nodiscard]] std::int64_t reach() const { return dilation * (kernel - 1); }
  [[nodiscard]] std::int64_t output_length() const { return length + 2 * padding - reach(); }
};

class Conv1d {
 public:
  // `isa` must be usable here (simd.h). Precondition: output_length() > 0.
  Conv1d(const Conv1dShape& shape, Isa isa);

  // Pieces of work that can be computed independently; depends on the shape and the instruction set alone.
  [[nodiscard]] std::int64_t units() const { return time_blocks_ * groups_; }
  // Computes the units with index = thread (mod threads). x [in][length], w [out][in][kernel], bias [out] or nullptr,
  // y [out][output_length]; float32, dense.
  void compute(int thread, int threads, const float* x, const float* w, const float* bias, float* y) const;

 private:
  void compute_unit(std::int64_t unit, const float* x, const float* w, const float* bias, float* y) const;
  Conv1dShape shape_;
  Isa isa_;
  std::int64_t block_ = 0;  // output samples per time block
  std::int64_t time_blocks_ = 0;
  std::int64_t group_ = 0;  // output channels per group
  std::int64_t groups_ = 0;
};

// Whether a vectorised kernel exists for this instruction set; the plain one is a yardstick, not meant for use.
bool conv1d_is_fast(Isa isa);

}  // namespace tritium::cpu
