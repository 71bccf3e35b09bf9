#include "kernels/cpu/attention.h"

#include "kernels/cpu/attention_tile.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numbers>

namespace tritium::cpu {
namespace {

constexpr std::int64_t kBlockRows = 112;  // of queries, about: scores, weights and sums of a block stay in the second-level cache

const AttentionFunctions* functions([[maybe_unused]] Isa isa, AttentionType type) {
#ifdef TRITIUM_X86_KERNELS
  if (type == AttentionType::bf16) return isa == Isa::avx512 && has_avx512_bf16() ? &kAttentionAvx512Bf16 : nullptr;
  if (isa == Isa::avx512) return &kAttentionAvx512;
  if (isa == Isa::avx2) return &kAttentionAvx2;
#endif
  return type == AttentionType::f32 ? &kAttentionGeneric : nullptr;
}

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

bool attention_available(Isa isa, AttentionType type) { return functions(isa, type) != nullptr; }

// Of one thread, kept for the next blocks.
struct Attention::Scratch {
  std::vector<std::uint8_t> queries, weights;
  std::vector<float> scores, sums;
  std::vector<AttentionRow> rows;
};

Attention::Attention(const Shape& shape, AttentionType type, Isa isa)
    : shape_(shape),
      run_(functions(isa, type)),
      element_(run_->element),
      depth_(round_up(shape.head_dim, 4 / element_)),
      columns_(round_up(shape.head_dim, run_->columns)),
      padded_keys_(round_up(shape.keys, run_->columns)),
      block_rows_(kBlockRows / run_->rows * run_->rows) {}

std::size_t Attention::key_bytes() const { return static_cast<std::size_t>(padded_keys_ * depth_ * element_); }
std::size_t Attention::head_bytes() const { return key_bytes() + static_cast<std::size_t>(padded_keys_ * columns_ * element_); }
std::size_t Attention::packed_bytes() const { return head_bytes() * static_cast<std::size_t>(shape_.kv_heads); }

int Attention::pack_units() const { return static_cast<int>(shape_.kv_heads * (round_up(shape_.keys, kAttentionKeys) / kAttentionKeys)); }
int Attention::units() const { return static_cast<int>(shape_.heads * (round_up(shape_.rows, block_rows_) / block_rows_)); }

void Attention::pack(int thread, int threads, const View& k, const View& v, std::uint8_t* packed) const {
  const std::int64_t blocks = round_up(shape_.keys, kAttentionKeys) / kAttentionKeys;
  for (std::int64_t unit = thread; unit < pack_units(); unit += threads) {
    const std::int64_t kv_head = unit / blocks, first = unit % blocks * kAttentionKeys;
    const std::int64_t count = std::min(kAttentionKeys, shape_.keys - first);
    std::uint8_t* head = packed + static_cast<std::size_t>(kv_head) * head_bytes();
    pack_keys(k, kv_head, first, count, head + first * depth_ * element_);
    pack_values(v, kv_head, first, count, head + key_bytes() + first * run_->columns * element_);
  }
}

// Panels of `columns` keys, [depth][columns] each. Elements move as words of 4 bytes: pairs of bfloat16 neighbours of the depth.
void Attention::pack_keys(const View& k, std::int64_t kv_head, std::int64_t first, std::int64_t count, std::uint8_t* out) const {
  const std::int64_t words = depth_ * element_ / 4, columns = run_->columns;
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(columns * words));
  for (std::int64_t panel = 0; panel < count; panel += columns) {
    std::fill(rows.begin(), rows.end(), 0u);
    for (std::int64_t i = 0; i < std::min(columns, count - panel); ++i)
      run_->convert(k.data + kv_head * k.head_stride + (first + panel + i) * k.row_stride, shape_.head_dim, rows.data() + i * words);
    std::uint8_t* place = out + panel * depth_ * element_;
    for (std::int64_t w = 0; w < words; ++w, place += columns * 4)
      for (std::int64_t i = 0; i < columns; ++i) std::memcpy(place + i * 4, &rows[static_cast<std::size_t>(i * words + w)], 4);
  }
}

// Panels of `columns` features, [keys][columns] each, for bfloat16 [keys/2][columns][2].
void Attention::pack_values(const View& v, std::int64_t kv_head, std::int64_t first, std::int64_t count, std::uint8_t* out) const {
  const std::int64_t columns = run_->columns, panel_bytes = padded_keys_ * columns * element_, pair = 4 / element_;
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(2 * columns_ * element_));
  const std::int64_t padded = std::min(round_up(count, columns), padded_keys_ - first);
  for (std::int64_t key = 0; key < padded; key += pair) {
    std::fill(rows.begin(), rows.end(), std::uint8_t{0});
    for (std::int64_t i = 0; i < pair && key + i < count; ++i)
      run_->convert(v.data + kv_head * v.head_stride + (first + key + i) * v.row_stride, shape_.head_dim,
                    rows.data() + i * columns_ * element_);
    for (std::int64_t panel = 0; panel < columns_ / columns; ++panel) {
      std::uint8_t* place = out + panel * panel_bytes + key * columns * element_;
      const std::uint8_t* row = rows.data() + panel * columns * element_;
      if (pair == 1) {
        std::memcpy(place, row, static_cast<std::size_t>(columns * 4));
        continue;
      }
      for (std::int64_t i = 0; i < columns; ++i) {
        std::uint16_t first_half, second_half;
        std::memcpy(&first_half, row + i * 2, 2);
        std::memcpy(&second_half, row + (columns_ + i) * 2, 2);
        const std::uint32_t both = first_half | static_cast<std::uint32_t>(second_half) << 16;
        std::memcpy(place + i * 4, &both, 4);
      }
    }
  }
}

void Attention::compute(int thread, int threads, const View& q, const std::uint8_t* packed, float* y) const {
  thread_local Scratch scratch;
  const auto block = static_cast<std::size_t>(block_rows_), element = static_cast<std::size_t>(element_);
  scratch.queries.resize(block * static_cast<std::size_t>(depth_) * element);
  scratch.weights.resize(block * kAttentionKeys * element);
  scratch.scores.resize(block * kAttentionKeys);
  scratch.sums.resize(block * static_cast<std::size_t>(columns_));
  scratch.rows.resize(block);
  const std::int64_t blocks = round_up(shape_.rows, block_rows_) / block_rows_;
  for (std::int64_t unit = thread; unit < units(); unit += threads)
    compute_rows(unit / blocks, unit % blocks * block_rows_, q, packed, y, scratch);
}

void Attention::compute_rows(std::int64_t head, std::int64_t first, const View& q, const std::uint8_t* packed, float* y,
                             Scratch& scratch) const {
  const std::int64_t rows = std::min(block_rows_, shape_.rows - first);
  std::fill(scratch.queries.begin(), scratch.queries.end(), std::uint8_t{0});
  std::fill(scratch.weights.begin(), scratch.weights.end(), std::uint8_t{0});
  std::fill(scratch.sums.begin(), scratch.sums.end(), 0.0f);
  std::fill(scratch.rows.begin(), scratch.rows.end(), AttentionRow{-std::numeric_limits<float>::infinity(), 0.0f});
  for (std::int64_t row = 0; row < rows; ++row)
    run_->convert(q.data + head * q.head_stride + (first + row) * q.row_stride, shape_.head_dim,
                  scratch.queries.data() + row * depth_ * element_);
  const std::int64_t kv_head = head / (shape_.heads / shape_.kv_heads);
  const std::uint8_t* head_keys = packed + static_cast<std::size_t>(kv_head) * head_bytes();
  const std::int64_t seen = shape_.causal ? std::min(shape_.keys, first + rows) : shape_.keys;
  for (std::int64_t key = 0; key < seen; key += kAttentionKeys)
    add_keys(first, rows, key, std::min(kAttentionKeys, seen - key), head_keys, scratch);
  for (std::int64_t row = 0; row < rows; ++row) {
    float* out = y + (first + row) * shape_.heads * shape_.head_dim + head * shape_.head_dim;
    const float* sums = scratch.sums.data() + row * columns_;
    const float share = 1.0f / scratch.rows[static_cast<std::size_t>(row)].sum;
    for (std::int64_t i = 0; i < shape_.head_dim; ++i) out[i] = sums[i] * share;
  }
}

// One block of keys for one block of rows.
void Attention::add_keys(std::int64_t first_row, std::int64_t rows, std::int64_t first_key, std::int64_t keys,
                         const std::uint8_t* head_keys, Scratch& scratch) const {
  const std::int64_t columns = run_->columns, width = round_up(keys, columns);
  for (std::int64_t key = 0; key < width; key += columns)
    for (std::int64_t row = 0; row < rows; row += run_->rows)
      run_->multiply(scratch.queries.data() + row * depth_ * element_, depth_, head_keys + (first_key + key) * depth_ * element_, depth_,
                     scratch.scores.data() + row * kAttentionKeys + key, kAttentionKeys, false);
  const float c = shape_.scale * std::numbers::log2e_v<float>;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t valid = shape_.causal ? std::clamp<std::int64_t>(first_row + row + 1 - first_key, 0, keys) : keys;
    std::uint8_t* weights = scratch.weights.data() + row * kAttentionKeys * element_;
    if (valid == 0)
      std::fill_n(weights, width * element_, std::uint8_t{0});
    else
      run_->softmax(scratch.scores.data() + row * kAttentionKeys, valid, width, c, &scratch.rows[static_cast<std::size_t>(row)], weights,
                    scratch.sums.data() + row * columns_, columns_);
  }
  const std::uint8_t* values = head_keys + key_bytes() + first_key * columns * element_;
  for (std::int64_t column = 0; column < columns_; column += columns, values += padded_keys_ * columns * element_)
    for (std::int64_t row = 0; row < rows; row += run_->rows)
      run_->multiply(scratch.weights.data() + row * kAttentionKeys * element_, kAttentionKeys, values, width,
                     scratch.sums.data() + row * columns_ + column, columns_, true);
}

}  // namespace tritium::cpu
