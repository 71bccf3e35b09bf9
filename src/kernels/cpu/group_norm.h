// Group normalisation of channels-last frames in float32: statistics of each frame and group of channels over all positions.
// Two passes, with a meeting of the threads between them. Sums are taken in double precision and in a fixed order, so the result has the
// same bits for every number of threads.
#pragma once

#include <cstdint>

namespace tritium::cpu {

struct GroupNormShape {
  std::int64_t channels = 0, groups = 0;  // a multiple of `groups`
  std::int64_t positions = 0;             // of one frame
  std::int64_t frames = 0;

  // A frame is cut into parts, which can be computed independently.
  [[nodiscard]] std::int64_t parts() const;
  [[nodiscard]] std::int64_t units() const { return frames * parts(); }
  [[nodiscard]] std::int64_t sums() const { return 2 * groups; }  // per part: sums of values and of squares
};

// x [frames, positions, channels] -> sums [frames, parts, 2, groups]. Computes the units with index = thread (mod threads).
void group_norm_sums(const GroupNormShape& shape, const float* x, double* sums, int thread, int threads);

// y = (x - mean) / sqrt(variance + eps) · weight + bias with the biased variance; weight and bias [channels].
void group_norm_apply(const GroupNormShape& shape, const float* x, const double* sums, const float* weight, const float* bias, float eps,
                      float* y, int thread, int threads);

}  // namespace tritium::cpu
