#include "kernels/cpu/group_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tritium::cpu {
namespace {

constexpr std::int64_t kPartPositions = 1024;
constexpr std::int64_t kMostParts = 64;  // per frame; every part of the second pass adds up all sums of its frame

struct Part {
  std::int64_t frame, first, count;  // positions within the frame
};

Part part_of(const GroupNormShape& shape, std::int64_t unit) {
  const std::int64_t parts = shape.parts(), size = (shape.positions + parts - 1) / parts, first = unit % parts * size;
  return {unit / parts, first, std::clamp<std::int64_t>(shape.positions - first, 0, size)};
}

// Mean and multiplier of every channel of one frame.
void channel_transform(const GroupNormShape& shape, const double* sums, const float* weight, float eps, float* mean, float* scale) {
  const std::int64_t per_group = shape.channels / shape.groups;
  const double count = static_cast<double>(per_group * shape.positions);
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    double sum = 0, squares = 0;
    for (std::int64_t part = 0; part < shape.parts(); ++part) {
      sum += sums[part * shape.sums() + g];
      squares += sums[part * shape.sums() + shape.groups + g];
    }
    const double average = sum / count, variance = std::max(0.0, squares / count - average * average);
    const double inverse = 1.0 / std::sqrt(variance + static_cast<double>(eps));
    for (std::int64_t c = g * per_group; c < (g + 1) * per_group; ++c) {
      mean[c] = static_cast<float>(average);
      scale[c] = static_cast<float>(inverse * static_cast<double>(weight[c]));
    }
  }
}

}  // namespace

std::int64_t GroupNormShape::parts() const { return std::clamp(positions / kPartPositions, std::int64_t{1}, kMostParts); }

void group_norm_sums(const GroupNormShape& shape, const float* x, double* sums, int thread, int threads) {
  thread_local std::vector<double> per_channel;  // sums, then sums of squares
  const std::int64_t channels = shape.channels, per_group = channels / shape.groups;
  for (std::int64_t unit = thread; unit < shape.units(); unit += threads) {
    const Part part = part_of(shape, unit);
    per_channel.assign(static_cast<std::size_t>(2 * channels), 0.0);
    double* __restrict total = per_channel.data();
    double* __restrict squares = total + channels;
    for (std::int64_t i = 0; i < part.count; ++i) {
      const float* __restrict row = x + (part.frame * shape.positions + part.first + i) * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        const double value = static_cast<double>(row[c]);
        total[c] += value;
        squares[c] += value * value;
      }
    }
    double* out = sums + unit * shape.sums();
    std::fill_n(out, shape.sums(), 0.0);
    for (std::int64_t c = 0; c < channels; ++c) {
      out[c / per_group] += total[c];
      out[shape.groups + c / per_group] += squares[c];
    }
  }
}

void group_norm_apply(const GroupNormShape& shape, const float* x, const double* sums, const float* weight, const float* bias, float eps,
                      float* y, int thread, int threads) {
  thread_local std::vector<float> transform;
  const std::int64_t channels = shape.channels;
  transform.resize(static_cast<std::size_t>(2 * channels));
  float* __restrict mean = transform.data();
  float* __restrict scale = mean + channels;
  for (std::int64_t unit = thread; unit < shape.units(); unit += threads) {
    const Part part = part_of(shape, unit);
    channel_transform(shape, sums + part.frame * shape.parts() * shape.sums(), weight, eps, mean, scale);
    for (std::int64_t i = 0; i < part.count; ++i) {
      const std::int64_t at = (part.frame * shape.positions + part.first + i) * channels;
      for (std::int64_t c = 0; c < channels; ++c) y[at + c] = (x[at + c] - mean[c]) * scale[c] + bias[c];
    }
  }
}

}  // namespace tritium::cpu
