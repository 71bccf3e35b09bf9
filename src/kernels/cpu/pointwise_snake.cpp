#include "kernels/cpu/pointwise_snake.h"

#include "kernels/cpu/snake_block.h"

#include <algorithm>
#include <cmath>

namespace tritium::cpu {
namespace {

// The block of the alias-free activation holds two rows of values; here the second one continues the first.
constexpr std::int64_t kBlock = 2 * kSnakeBlock;

const SnakeFunctions& functions([[maybe_unused]] Isa isa) {
#ifdef TRITIUM_X86_KERNELS
  if (isa == Isa::avx512) return kSnakeAvx512;
  if (isa == Isa::avx2) return kSnakeAvx2;
#endif
  return kSnakeGeneric;
}

void compute_block(const float* x, float* y, std::int64_t count, float frequency, float inverse_magnitude, const SnakeFunctions& run) {
  SnakeScratch scratch;
  const std::int64_t first = std::min<std::int64_t>(count, kSnakeBlock);
  std::fill_n(std::copy_n(x, first, scratch.even), kSnakeBlock - first, 0.0f);
  std::fill_n(std::copy_n(x + first, count - first, scratch.odd), kSnakeBlock - (count - first), 0.0f);
  if (run.largest(scratch, kSnakeBlock) * std::abs(frequency) <= kSnakeMaxArgument) {
    run.activate(scratch, kSnakeBlock, frequency, inverse_magnitude);
    std::copy_n(scratch.odd, count - first, std::copy_n(scratch.even, first, y));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const float sine = std::sin(frequency * x[i]);
    y[i] = x[i] + sine * sine * inverse_magnitude;
  }
}

std::int64_t blocks_per_channel(std::int64_t length) { return (length + kBlock - 1) / kBlock; }

}  // namespace

std::int64_t pointwise_snake_units(std::int64_t length, std::int64_t channels) { return channels * blocks_per_channel(length); }

void pointwise_snake(const PointwiseSnakeArguments& arguments, int thread, int threads, Isa isa) {
  const SnakeFunctions& run = functions(isa);
  const std::int64_t blocks = blocks_per_channel(arguments.length);
  for (std::int64_t unit = thread; unit < pointwise_snake_units(arguments.length, arguments.channels); unit += threads) {
    const std::int64_t channel = unit / blocks, first = unit % blocks * kBlock, offset = channel * arguments.length + first;
    compute_block(arguments.x + offset, arguments.y + offset, std::min(kBlock, arguments.length - first), arguments.frequency[channel],
                  arguments.inverse_magnitude[channel], run);
  }
}

}  // namespace tritium::cpu
