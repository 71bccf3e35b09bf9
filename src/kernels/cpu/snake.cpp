#include "kernels/cpu/snake.h"

#include "kernels/cpu/snake_block.h"

#include <algorithm>
#include <cmath>

namespace tritium::cpu {
namespace {

const SnakeFunctions& functions([[maybe_unused]] Isa isa) {
#ifdef TRITIUM_X86_KERNELS
  if (isa == Isa::avx512) return kSnakeAvx512;
  if (isa == Isa::avx2) return kSnakeAvx2;
#endif
  return kSnakeGeneric;
}

void activate_large(SnakeScratch& scratch, int pairs, float frequency, float inverse_magnitude) {
  for (float* values : {scratch.even, scratch.odd})
    for (int j = 0; j < pairs; ++j) {
      const float sine = std::sin(frequency * values[j]);
      values[j] += sine * sine * inverse_magnitude;
    }
}

// The doubled signal continues beyond its ends with its first and last value.
void replicate_edges(SnakeScratch& scratch, int pairs, std::int64_t first_pair, std::int64_t length) {
  for (int j = 0; j < pairs && first_pair + j < 0; ++j) scratch.even[j] = scratch.odd[j] = scratch.even[-first_pair];
  for (std::int64_t j = std::max<std::int64_t>(0, length - first_pair); j < pairs; ++j)
    scratch.even[j] = scratch.odd[j] = scratch.odd[length - 1 - first_pair];
}

void compute_block(const SnakeArguments& a, std::int64_t channel, std::int64_t first, const SnakeFunctions& run) {
  const float* x = a.x + channel * a.length;
  const int count = static_cast<int>(std::min<std::int64_t>(kSnakeBlock, a.length - first)), pairs = count + 2 * kSnakeReach;
  const std::int64_t first_pair = first - kSnakeReach, first_sample = first_pair - kSnakeTaps / 2;
  SnakeScratch scratch;
  for (int j = 0; j < pairs + kSnakeTaps - 1; ++j) scratch.x[j] = x[std::clamp<std::int64_t>(first_sample + j, 0, a.length - 1)];
  run.upsample(scratch, pairs, a.up);
  const float frequency = a.frequency[channel], inverse_magnitude = a.inverse_magnitude[channel];
  const bool in_range = run.largest(scratch, pairs) * std::abs(frequency) <= kSnakeMaxArgument;
  (in_range ? run.activate : activate_large)(scratch, pairs, frequency, inverse_magnitude);
  replicate_edges(scratch, pairs, first_pair, a.length);
  run.downsample(scratch, count, a.down, a.y + channel * a.length + first);
}

std::int64_t blocks_per_channel(std::int64_t length) { return (length + kSnakeBlock - 1) / kSnakeBlock; }

}  // namespace

std::int64_t snake_units(std::int64_t length, std::int64_t channels) { return channels * blocks_per_channel(length); }

void alias_free_snake(const SnakeArguments& arguments, int thread, int threads, Isa isa) {
  const SnakeFunctions& run = functions(isa);
  const std::int64_t blocks = blocks_per_channel(arguments.length);
  for (std::int64_t unit = thread; unit < snake_units(arguments.length, arguments.channels); unit += threads)
    compute_block(arguments, unit / blocks, unit % blocks * kSnakeBlock, run);
}

}  // namespace tritium::cpu
