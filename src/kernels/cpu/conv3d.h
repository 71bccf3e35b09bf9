// Causal 3x3x3 convolution of channels-last frames in float32, without unfolding the input (spec/vae.md §1.3).
//
// Output frame t sees the input frames phase + t·time_stride - 2, -1 and 0 from there. Every output value is accumulated by one thread in
// a fixed order, so the result has the same bits for every number of threads.
#pragma once

#include "kernels/cpu/simd.h"

#include <cstdint>

namespace tritium::cpu {

inline constexpr std::int64_t kConv3dSize = 3;                                        // in time and space
inline constexpr std::int64_t kConv3dTaps = kConv3dSize * kConv3dSize * kConv3dSize;  // order: time, y, x
inline constexpr std::int64_t kConv3dPast = kConv3dSize - 1;                          // frames before the current one

struct Conv3dShape {
  std::int64_t in = 0, out = 0;                    // channels
  std::int64_t width = 0, height = 0, frames = 0;  // of the input; width and height at least 2
  // 1: the picture is continued by one position on every side; 2: on the right and at the bottom only, width and height even.
  // Continued by reflection, without repeating the edge.
  std::int64_t space_stride = 1;
  std::int64_t time_stride = 1, phase = 0;  // 0 <= phase < time_stride

  [[nodiscard]] std::int64_t output_width() const { return width / space_stride; }
  [[nodiscard]] std::int64_t output_height() const { return height / space_stride; }
  [[nodiscard]] std::int64_t output_frames() const { return frames > phase ? (frames - phase - 1) / time_stride + 1 : 0; }
  [[nodiscard]] std::int64_t positions() const { return output_width() * output_height() * output_frames(); }
};

// All pointers to float32, dense.
struct Conv3dArguments {
  const float* x = nullptr;       // [frames, height, width, in]
  const float* before = nullptr;  // the two frames in front of x, [2, height, width, in]; nullptr: zeros
  const float* w = nullptr;       // [27, in, out]
  const float* bias = nullptr;    // [out] or nullptr
  float* y = nullptr;             // [output_frames, output_height, output_width, out]
};

class Conv3d {
 public:
  // `isa` must be usable here (simd.h).
  Conv3d(const Conv3dShape& shape, Isa isa);

  // Pieces of work that can be computed independently; depends on the shape alone.
  [[nodiscard]] std::int64_t units() const { return blocks_ * groups_; }
  // Computes the units with index = thread (mod threads).
  void compute(int thread, int threads, const Conv3dArguments& arguments) const;

 private:
  void compute_unit(std::int64_t unit, const Conv3dArguments& arguments) const;

  Conv3dShape shape_;
  Isa isa_;
  std::int64_t block_ = 0, blocks_ = 0;  // output positions per unit
  std::int64_t groups_ = 0;              // groups of output channels
};

// Whether a vectorised kernel exists for this instruction set; the plain one is a yardstick, not meant for use.
bool conv3d_is_fast(Isa isa);

}  // namespace tritium::cpu
