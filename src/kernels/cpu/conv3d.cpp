#include "kernels/cpu/conv3d.h"

#include "kernels/cpu/conv3d_tile.h"

#include <algorithm>
#include <vector>

namespace tritium::cpu {
namespace {

// A unit's weights of one depth and its sums should stay in the second-level cache.
constexpr std::int64_t kGroup = 128;     // output channels per unit
constexpr std::int64_t kBlockStep = 42;  // positions; a whole number of tiles of every instruction set
constexpr std::int64_t kLargestBlock = 10 * kBlockStep;
constexpr std::int64_t kSmallestBlock = 2 * kBlockStep;
constexpr std::int64_t kWantedUnits = 16;  // so that every thread of a common machine has something to do

constexpr std::int64_t kPlainRows = 6, kPlainColumns = 16;

void run_plain(const float* a, const float* b, std::int64_t depth, float* sums) {
  for (std::int64_t r = 0; r < kPlainRows; ++r)
    for (std::int64_t c = 0; c < kPlainColumns; ++c) {
      double sum = static_cast<double>(sums[r * kPlainColumns + c]);
      for (std::int64_t k = 0; k < depth; ++k)
        sum += static_cast<double>(a[r * kConv3dRowStride + k]) * static_cast<double>(b[k * kPlainColumns + c]);
      sums[r * kPlainColumns + c] = static_cast<float>(sum);
    }
}

const Conv3dFunctions& functions([[maybe_unused]] Isa isa) {
#ifdef TRITIUM_X86_KERNELS
  if (isa == Isa::avx512) return kConv3dAvx512;
  if (isa == Isa::avx2) return kConv3dAvx2;
#endif
  return kConv3dGeneric;
}

std::int64_t parts(std::int64_t size, std::int64_t part) { return (size + part - 1) / part; }

std::int64_t reflected(std::int64_t i, std::int64_t size) { return i < 0 ? -i : i < size ? i : 2 * size - 2 - i; }

// A run of terms that lie side by side in the input for a given position.
struct Piece {
  std::int64_t time, y, x;  // the first tap
  std::int64_t channel, count;
};

// The terms [first, last) of the sum over taps and channels, cut where a tap ends, or a line of taps if `whole_lines`.
void cut(std::int64_t first, std::int64_t last, std::int64_t channels, bool whole_lines, std::vector<Piece>& out) {
  out.clear();
  while (first < last) {
    const std::int64_t tap = first / channels, line = whole_lines ? channels * kConv3dSize : channels;
    const std::int64_t count = std::min(last, (first / line + 1) * line) - first;
    out.push_back({tap / (kConv3dSize * kConv3dSize), tap / kConv3dSize % kConv3dSize, tap % kConv3dSize, first % channels, count});
    first += count;
  }
}

struct Position {
  std::int64_t time, y, x;
};

// What a thread works with, kept from one unit to the next.
struct Scratch {
  std::vector<Position> positions;
  std::vector<Piece> lines, taps;  // the current terms for positions away from the left and right edges, and at them
  std::vector<float> rows;         // [tile rows, kConv3dRowStride]
  std::vector<float> weights;      // [panels, depth, tile columns]
  std::vector<float> sums;         // [tiles, panels, tile rows, tile columns]
};

class Unit {
 public:
  Unit(const Conv3dShape& shape, const Conv3dArguments& arguments, const Conv3dFunctions& kernel, Scratch& scratch)
      : shape_(shape), arguments_(arguments), kernel_(kernel), scratch_(scratch), margin_(shape.space_stride == 1 ? 1 : 0) {}

  void compute(std::int64_t first_position, std::int64_t positions, std::int64_t first_channel, std::int64_t channels) {
    first_channel_ = first_channel;
    channels_ = channels;
    panels_ = parts(channels, kernel_.columns);
    list_positions(first_position, positions);
    const std::int64_t tiles = parts(positions, kernel_.rows);
    start_sums(tiles);
    scratch_.rows.resize(static_cast<std::size_t>(kernel_.rows * kConv3dRowStride));
    const std::int64_t end = kConv3dTaps * shape_.in;
    for (std::int64_t term = first_term(); term < end; term += kConv3dDepth) {
      const std::int64_t depth = std::min(kConv3dDepth, end - term);
      cut(term, term + depth, shape_.in, true, scratch_.lines);
      cut(term, term + depth, shape_.in, false, scratch_.taps);
      pack_weights(term, depth);
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        gather(tile);
        for (std::int64_t panel = 0; panel < panels_; ++panel)
          kernel_.run(scratch_.rows.data(), &scratch_.weights[static_cast<std::size_t>(panel * depth * kernel_.columns)], depth,
                      sums_of(tile, panel));
      }
    }
    store(first_position);
  }

 private:
  float* sums_of(std::int64_t tile, std::int64_t panel) {
    return &scratch_.sums[static_cast<std::size_t>((tile * panels_ + panel) * kernel_.rows * kernel_.columns)];
  }

  void list_positions(std::int64_t first, std::int64_t count) {
    const std::int64_t width = shape_.output_width(), height = shape_.output_height();
    scratch_.positions.clear();
    for (std::int64_t i = first; i < first + count; ++i)
      scratch_.positions.push_back({i / (width * height), i / width % height, i % width});
  }

  [[nodiscard]] std::int64_t input_frame(std::int64_t time, std::int64_t tap) const {
    return shape_.phase + time * shape_.time_stride + tap - kConv3dPast;
  }

  // Taps that meet zero frames at every position are left out: of a single frame only the last third of the kernel counts.
  [[nodiscard]] std::int64_t first_term() const {
    if (arguments_.before != nullptr) return 0;
    const std::int64_t zeros = std::max<std::int64_t>(0, -input_frame(scratch_.positions.back().time, 0));
    return zeros * kConv3dSize * kConv3dSize * shape_.in;
  }

  void start_sums(std::int64_t tiles) {
    scratch_.sums.assign(static_cast<std::size_t>(tiles * panels_ * kernel_.rows * kernel_.columns), 0.0f);
    if (arguments_.bias == nullptr) return;
    for (std::int64_t tile = 0; tile < tiles; ++tile)
      for (std::int64_t panel = 0; panel < panels_; ++panel)
        for (std::int64_t row = 0; row < kernel_.rows; ++row)
          std::copy_n(arguments_.bias + first_channel_ + panel * kernel_.columns, columns_of(panel),
                      sums_of(tile, panel) + row * kernel_.columns);
  }

  [[nodiscard]] std::int64_t columns_of(std::int64_t panel) const { return std::min(kernel_.columns, channels_ - panel * kernel_.columns); }

  void pack_weights(std::int64_t term, std::int64_t depth) {
    scratch_.weights.resize(static_cast<std::size_t>(panels_ * depth * kernel_.columns));
    float* to = scratch_.weights.data();
    for (std::int64_t panel = 0; panel < panels_; ++panel) {
      const std::int64_t columns = columns_of(panel);
      const float* from = arguments_.w + term * shape_.out + first_channel_ + panel * kernel_.columns;
      for (std::int64_t k = 0; k < depth; ++k, from += shape_.out, to += kernel_.columns)
        std::fill_n(std::copy_n(from, columns, to), kernel_.columns - columns, 0.0f);
    }
  }

  // The current terms at the positions of a tile; rows beyond the last position keep old values, whose sums are not stored.
  void gather(std::int64_t tile) {
    const std::int64_t first = tile * kernel_.rows, last = std::min<std::int64_t>(first + kernel_.rows, std::ssize(scratch_.positions));
    for (std::int64_t i = first; i < last; ++i) {
      const Position& at = scratch_.positions[static_cast<std::size_t>(i)];
      float* row = &scratch_.rows[static_cast<std::size_t>((i - first) * kConv3dRowStride)];
      const std::int64_t left = at.x * shape_.space_stride - margin_;
      const bool inside = left >= 0 && left + kConv3dSize <= shape_.width;
      for (const Piece& piece : inside ? scratch_.lines : scratch_.taps) row = copy(piece, at, left, row);
    }
  }

  float* copy(const Piece& piece, const Position& at, std::int64_t left, float* to) const {
    const std::int64_t frame = input_frame(at.time, piece.time), frame_values = shape_.width * shape_.height * shape_.in;
    if (frame < 0 && arguments_.before == nullptr) return std::fill_n(to, piece.count, 0.0f);
    const float* from = frame < 0 ? arguments_.before + (frame + kConv3dPast) * frame_values : arguments_.x + frame * frame_values;
    const std::int64_t y = reflected(at.y * shape_.space_stride - margin_ + piece.y, shape_.height),
                       x = reflected(left + piece.x, shape_.width);
    return std::copy_n(from + (y * shape_.width + x) * shape_.in + piece.channel, piece.count, to);
  }

  void store(std::int64_t first_position) {
    for (std::int64_t i = 0; i < std::ssize(scratch_.positions); ++i) {
      float* to = arguments_.y + (first_position + i) * shape_.out + first_channel_;
      for (std::int64_t panel = 0; panel < panels_; ++panel)
        std::copy_n(sums_of(i / kernel_.rows, panel) + i % kernel_.rows * kernel_.columns, columns_of(panel), to + panel * kernel_.columns);
    }
  }

  const Conv3dShape& shape_;
  const Conv3dArguments& arguments_;
  const Conv3dFunctions& kernel_;
  Scratch& scratch_;
  std::int64_t margin_;  // positions that the picture is continued to the left and to the top
  std::int64_t first_channel_ = 0, channels_ = 0, panels_ = 0;
};

}  // namespace

const Conv3dFunctions kConv3dGeneric{kPlainRows, kPlainColumns, run_plain};

bool conv3d_is_fast(Isa isa) { return isa != Isa::generic; }

Conv3d::Conv3d(const Conv3dShape& shape, Isa isa) : shape_(shape), isa_(isa) {
  groups_ = parts(shape.out, kGroup);
  const std::int64_t wanted = parts(kWantedUnits, groups_);
  const std::int64_t even = parts(parts(shape.positions(), wanted), kBlockStep) * kBlockStep;
  block_ = std::clamp(even, kSmallestBlock, kLargestBlock);
  blocks_ = parts(shape.positions(), block_);
}

void Conv3d::compute(int thread, int threads, const Conv3dArguments& arguments) const {
  for (std::int64_t unit = thread; unit < units(); unit += threads) compute_unit(unit, arguments);
}

void Conv3d::compute_unit(std::int64_t unit, const Conv3dArguments& arguments) const {
  thread_local Scratch scratch;
  const std::int64_t position = unit / groups_ * block_, channel = unit % groups_ * kGroup;
  Unit(shape_, arguments, functions(isa_), scratch)
      .compute(position, std::min(block_, shape_.positions() - position), channel, std::min(kGroup, shape_.out - channel));
}

}  // namespace tritium::cpu
