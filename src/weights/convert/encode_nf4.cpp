// NF4 as bitsandbytes stores it (spec/weights.md §4.6): the flattened matrix in blocks of 64, each with a scale of its own; the scales,
// less their mean, in blocks of 256 as 8-bit codes.
#include "weights/convert/encoder_parts.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <numeric>

namespace tritium {
namespace {

constexpr std::int64_t kBlock = 64, kNested = 256;
constexpr std::size_t kOffsetDigits = 24;  // room for any double; the rest is filled with spaces, which JSON allows

// clang-format off
constexpr std::array<float, 16> kTable = {
  -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f,
  -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
  0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};
// clang-format on

// Decades from 1e-6 to 1, the i-th cut into 2^i equal pieces of [0.1, 1] whose middles are taken; both signs; 0 and 1.
std::array<float, 256> make_nested_map() {
  std::array<float, 256> out{};
  std::size_t n = 0;
  double decade = 1e-6;
  for (int i = 0; i < 7; ++i, decade *= 10) {
    const int pieces = 1 << i;
    for (int p = 0; p < pieces; ++p) {
      const auto middle = static_cast<float>(decade * (0.1 + 0.9 * (p + 0.5) / pieces));
      out[n++] = middle;
      out[n++] = -middle;
    }
  }
  out[n++] = 0;
  out[n] = 1;
  std::sort(out.begin(), out.end());
  return out;
}

template <std::size_t N>
std::array<float, N - 1> midpoints(std::span<const float, N> table) {
  std::array<float, N - 1> out;
  for (std::size_t i = 0; i + 1 < N; ++i) out[i] = (table[i] + table[i + 1]) / 2;
  return out;
}

class Nf4Encoder final : public MatrixEncoder {
 public:
  explicit Nf4Encoder(const MatrixSpec& spec) : MatrixEncoder(spec) {
    const std::int64_t elements = spec.rows() * spec.columns(), blocks = (elements + kBlock - 1) / kBlock;
    declare(".weight", DType::u8, {(elements + 1) / 2, 1});
    absmax_place_ = declare(".weight.absmax", DType::u8, {blocks});
    nested_place_ = declare(".weight.nested_absmax", DType::f32, {(blocks + kNested - 1) / kNested});
    map_place_ = declare(".weight.nested_quant_map", DType::f32, {256});
    table_place_ = declare(".weight.quant_map", DType::f32, {16});
    state_place_ = declare(".weight.quant_state.bitsandbytes__nf4", DType::u8, {static_cast<std::int64_t>(state("").size())});
    absmax_.resize(static_cast<std::size_t>(blocks));
    quant_.format = QuantFormat::nf4;
    quant_.group = kBlock;
    quant_.rounding = DType::bf16;
  }

  [[nodiscard]] Survey survey() const override { return Survey::all; }
  [[nodiscard]] std::int64_t row_step() const override { return kBlock / std::gcd(spec().columns(), kBlock); }

  void observe(std::int64_t first_row, std::span<const float> values) override {
    auto block = static_cast<std::size_t>(first_row * spec().columns() / kBlock);
    for (std::size_t at = 0; at < values.size(); at += kBlock, ++block)
      absmax_[block] = absolute_maximum(values.subspan(at, std::min<std::size_t>(kBlock, values.size() - at)));
  }

  void prepare() override {
    offset_ = static_cast<float>(std::accumulate(absmax_.begin(), absmax_.end(), 0.0) / static_cast<double>(absmax_.size()));
    codes_.resize(absmax_.size());
    decoded_.resize(absmax_.size());
    const auto map = nested_scale_map();
    const auto bounds = midpoints(map);
    for (std::size_t first = 0; first < absmax_.size(); first += kNested) {
      const std::size_t end = std::min(first + kNested, absmax_.size());
      float largest = 0;
      for (std::size_t b = first; b < end; ++b) largest = std::max(largest, std::fabs(absmax_[b] - offset_));
      nested_.push_back(largest);
      for (std::size_t b = first; b < end; ++b) {
        const float part = largest > 0 ? (absmax_[b] - offset_) / largest : 0.0f;
        codes_[b] = static_cast<std::uint8_t>(std::upper_bound(bounds.begin(), bounds.end(), part) - bounds.begin());
        decoded_[b] = map[codes_[b]] * largest + offset_;
      }
    }
  }

  Result<void> encode(std::int64_t first_row, std::span<const float> values, std::vector<EncodedPiece>& pieces,
                      std::span<float> decoded) const override {
    if (auto finite = check_finite(values); !finite.ok()) return finite;
    const auto first_element = static_cast<std::uint64_t>(first_row * spec().columns());
    const std::size_t first_block = first_element / kBlock;
    EncodedPiece piece{0, first_element / 2, std::vector<std::uint8_t>((values.size() + 1) / 2)};
    for (std::size_t at = 0, block = first_block; at < values.size(); at += kBlock, ++block)
      encode_block(values.subspan(at, std::min<std::size_t>(kBlock, values.size() - at)), absmax_[block], piece.bytes.data() + at / 2);
    SideValues sides;
    sides.table.assign(kTable.begin(), kTable.end());
    const std::size_t blocks = (values.size() + kBlock - 1) / kBlock;
    sides.group_scale.values.assign(decoded_.begin() + static_cast<std::ptrdiff_t>(first_block),
                                    decoded_.begin() + static_cast<std::ptrdiff_t>(first_block + blocks));
    decode_nf4(quant_, sides, 0, piece.bytes, decoded);
    pieces.push_back(std::move(piece));
    return {};
  }

  [[nodiscard]] std::vector<EncodedPiece> constants() const override {
    const auto map = nested_scale_map();
    return {{absmax_place_, 0, codes_},
            {nested_place_, 0, bytes_of(nested_)},
            {map_place_, 0, bytes_of(std::vector<float>(map.begin(), map.end()))},
            {table_place_, 0, bytes_of(std::vector<float>(kTable.begin(), kTable.end()))},
            {state_place_, 0, bytes_of_text(state(fmt::format("{}", static_cast<double>(offset_))))}};
  }

 private:
  // The high nibble is the first of two.
  static void encode_block(std::span<const float> values, float absmax, std::uint8_t* out) {
    static const auto bounds = midpoints(nf4_table());
    const float inverse = absmax > 0 ? 1.0f / absmax : 0.0f;
    std::array<std::uint8_t, kBlock> codes{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float part = values[i] * inverse;
      int code = 0;
      for (const float bound : bounds) code += part > bound ? 1 : 0;
      codes[i] = static_cast<std::uint8_t>(code);
    }
    for (std::size_t i = 0; i < (values.size() + 1) / 2; ++i) out[i] = static_cast<std::uint8_t>(codes[2 * i] << 4 | codes[2 * i + 1]);
  }

  [[nodiscard]] std::string state(const std::string& offset) const { return nf4_state_text(spec().rows(), spec().columns(), offset); }

  std::size_t absmax_place_ = 0, nested_place_ = 0, map_place_ = 0, table_place_ = 0, state_place_ = 0;
  std::vector<float> absmax_, decoded_, nested_;  // of each block: as found, as stored; of each block of blocks
  std::vector<std::uint8_t> codes_;
  float offset_ = 0;
  QuantDescription quant_;
};

}  // namespace

std::span<const float, 16> nf4_table() { return kTable; }

std::string nf4_state_text(std::int64_t rows, std::int64_t columns, const std::string& offset) {
  std::string text =
      fmt::format(R"({{"quant_type": "nf4", "blocksize": {}, "dtype": "bfloat16", "shape": [{}, {}], "nested_blocksize": {}, )"
                  R"("nested_dtype": "float32", "nested_offset": {}}})",
                  kBlock, rows, columns, kNested, offset);
  return text.append(kOffsetDigits - std::min(kOffsetDigits, offset.size()), ' ');
}

std::span<const float, 256> nested_scale_map() {
  static const std::array<float, 256> map = make_nested_map();
  return map;
}

std::unique_ptr<MatrixEncoder> make_nf4_encoder(const MatrixSpec& spec) { return std::make_unique<Nf4Encoder>(spec); }

}  // namespace tritium
