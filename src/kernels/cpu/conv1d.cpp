#include "kernels/cpu/conv1d.h"

#include "kernels/cpu/conv1d_tile.h"

#include <algorithm>
#include <vector>

namespace tritium::cpu {
namespace {

// The padded input of one time block should stay in the second-level cache while all output channels pass over it.
constexpr std::int64_t kInputBlockValues = 128 * 1024;  // 512 KiB
constexpr std::int64_t kBlockStep = 96;                 // a whole number of tiles of every instruction set with 4 or 8 rows
constexpr std::int64_t kLargestBlock = 42 * kBlockStep;
constexpr std::int64_t kWantedUnits = 16;  // so that every thread of a common machine has something to do
constexpr std::int64_t kSmallestGroup = 32;

void run_plain(const Conv1dTile& tile, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t t = 0; t < tile.samples; ++t) {
      double sum = tile.bias != nullptr ? static_cast<double>(tile.bias[r]) : 0.0;
      for (std::int64_t i = 0; i < tile.in; ++i)
        for (std::int64_t k = 0; k < tile.kernel; ++k)
          sum += static_cast<double>(tile.w[r * tile.w_stride + i * tile.kernel + k]) *
                 static_cast<double>(tile.x[i * tile.x_stride + t + k * tile.dilation]);
      tile.y[r * tile.y_stride + t] = static_cast<float>(sum);
    }
}

const Conv1dFunctions& functions([[maybe_unused]] Isa isa) {
#ifdef TRITIUM_X86_KERNELS
  if (isa == Isa::avx512) return kConv1dAvx512;
  if (isa == Isa::avx2) return kConv1dAvx2;
#endif
  return kConv1dGeneric;
}

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Samples [first, first + count) of the input: dst[i·stride + j] = x[i][first + j], zero outside the signal.
void copy_padded(const Conv1dShape& shape, const float* x, std::int64_t first, std::int64_t count, std::int64_t stride, float* dst) {
  const std::int64_t zeros = std::clamp<std::int64_t>(-first, 0, count);
  const std::int64_t present = std::clamp<std::int64_t>(shape.length - (first + zeros), 0, count - zeros);
  for (std::int64_t i = 0; i < shape.in; ++i, dst += stride) {
    std::fill_n(dst, zeros, 0.0f);
    std::copy_n(x + i * shape.length + first + zeros, present, dst + zeros);
    std::fill(dst + zeros + present, dst + count, 0.0f);
  }
}

}  // namespace

const Conv1dFunctions kConv1dGeneric{1, run_plain};

bool conv1d_is_fast(Isa isa) { return isa != Isa::generic; }

Conv1d::Conv1d(const Conv1dShape& shape, Isa isa) : shape_(shape), isa_(isa) {
  const std::int64_t length = shape.output_length(), fitting = kInputBlockValues / shape.in - shape.reach();
  block_ = std::min(length, std::clamp(fitting, kBlockStep, kLargestBlock) / kBlockStep * kBlockStep);
  time_blocks_ = (length + block_ - 1) / block_;
  const std::int64_t wanted = (kWantedUnits + time_blocks_ - 1) / time_blocks_;
  group_ = std::min(shape.out, rounded_up(std::max(kSmallestGroup, (shape.out + wanted - 1) / wanted), kSmallestGroup));
  groups_ = (shape.out + group_ - 1) / group_;
}

void Conv1d::compute(int thread, int threads, const float* x, const float* w, const float* bias, float* y) const {
  for (std::int64_t unit = thread; unit < units(); unit += threads) compute_unit(unit, x, w, bias, y);
}

void Conv1d::compute_unit(std::int64_t unit, const float* x, const float* w, const float* bias, float* y) const {
  const std::int64_t length = shape_.output_length(), first = unit / groups_ * block_, samples = std::min(block_, length - first);
  // The last tile may read beyond the copied samples, to results that are not stored. An odd number of cache lines spreads the rows.
  const std::int64_t stride = (rounded_up(samples + shape_.reach() + kConv1dWidestTile, 16) / 16 | 1) * 16;
  thread_local std::vector<float> padded;
  if (static_cast<std::int64_t>(padded.size()) < shape_.in * stride) padded.resize(static_cast<std::size_t>(shape_.in * stride));
  copy_padded(shape_, x, first - shape_.padding, samples + shape_.reach(), stride, padded.data());

  const Conv1dFunctions& kernel = functions(isa_);
  const std::int64_t begin = unit % groups_ * group_, end = std::min(begin + group_, shape_.out);
  const std::int64_t weights_per_row = shape_.in * shape_.kernel;
  for (std::int64_t o = begin; o < end;) {
    std::int64_t rows = kernel.most_rows;
    while (rows > end - o) rows /= 2;
    kernel.run({padded.data(), stride, w + o * weights_per_row, weights_per_row, bias != nullptr ? bias + o : nullptr,
                y + o * length + first, length, shape_.in, shape_.kernel, shape_.dilation, samples},
               rows);
    o += rows;
  }
}

}  // namespace tritium::cpu
