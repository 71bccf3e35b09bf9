// W4A8, "asym_w4a8_int8" (spec/weights.md §4.3): rotated rows, a scale per row, an E4M3 scale per group of 16, nibbles of a codebook.
//
// What a weight is read as: rne(codebook[c]·s_rel)·s_channel. s_channel makes the row's largest value 127. For each group all E4M3
// scales around the one that fits its largest value are tried, the rounding included; the one with the least squared error stays. The
// codebook is fitted to some rows by turns: best scales for the codebook, then best codebook for the scales.
#include "weights/convert/encoder_parts.h"
#include "weights/quant/rotation.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>

namespace tritium {
namespace {

constexpr std::size_t kGroup = 16;
constexpr int kStepsDown = 7, kStepsUp = 2;  // of E4M3, eight to an octave: from 0.55 to 1.2 of the scale that holds the largest value
constexpr int kFitRounds = 12;

// clang-format off
constexpr std::array<float, 16> kFixed = {
  -0.9806020259857178f, -0.7945290207862854f, -0.6381649971008301f, -0.5009859800338745f, -0.3773210048675537f, -0.2631869912147522f,
  -0.1552100032567978f, -0.05071999877691269f, 0.05254099890589714f, 0.15698499977588654f, 0.26528400182724f, 0.37953299283981323f,
  0.5026360154151917f, 0.6389529705047607f, 0.794875979423523f, 0.9806709885597229f};
// clang-format on

using Codebook = std::array<float, 16>;
using Group = std::span<const float, kGroup>;
using Lanes = float __attribute__((vector_size(kGroup * sizeof(float))));

// The 16 values a group can have with one scale, ascending, and where one becomes nearer than the next.
struct Levels {
  Codebook value;
  std::array<float, 15> bound, step;

  Levels(const Codebook& codebook, float scale, bool rounded) {
    for (std::size_t c = 0; c < 16; ++c) value[c] = rounded ? round_within(codebook[c] * scale, 127.0f) : codebook[c] * scale;
    for (std::size_t c = 0; c < 15; ++c) {
      bound[c] = (value[c] + value[c + 1]) / 2;
      step[c] = value[c + 1] - value[c];
    }
  }

  // The innermost loop of the whole conversion: a group is one vector, in however many registers the machine has for it.
  [[nodiscard]] float squared_error(Group x) const {
    Lanes values, nearest = Lanes{} + value[0];
    std::memcpy(&values, x.data(), sizeof values);
    for (std::size_t c = 0; c < 15; ++c) nearest += values > bound[c] ? Lanes{} + step[c] : Lanes{};
    const Lanes off = values - nearest, squares = off * off;
    std::array<float, 4> sums{};
    for (std::size_t i = 0; i < kGroup; ++i) sums[i % 4] += squares[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  [[nodiscard]] std::array<std::uint8_t, kGroup> codes(Group x) const {
    std::array<std::int32_t, kGroup> count{};
    for (std::size_t c = 0; c < 15; ++c)
      for (std::size_t i = 0; i < kGroup; ++i) count[i] += x[i] > bound[c] ? 1 : 0;
    std::array<std::uint8_t, kGroup> out;
    for (std::size_t i = 0; i < kGroup; ++i) out[i] = static_cast<std::uint8_t>(count[i]);
    return out;
  }
};

float top_of(const Codebook& codebook) { return std::max(-codebook.front(), codebook.back()); }

// A codebook with its levels for every finite positive E4M3 scale: codes 1 ... 0x7E, ascending, and 0.
struct Tables {
  float top = 1;
  std::vector<Levels> of_code;

  Tables(const Codebook& codebook, bool rounded) : top(top_of(codebook)) {
    for (std::size_t code = 0; code <= 0x7E; ++code) of_code.emplace_back(codebook, f8_values(DType::f8_e4m3)[code], rounded);
  }
};

// The E4M3 code whose scale represents the group best, and the error left.
struct BestScale {
  std::uint8_t code = 0;
  float error = 0;
};
BestScale best_scale(const Tables& tables, Group x) {
  const float largest = absolute_maximum(x);
  if (largest == 0) return {};
  const int start = f32_to_f8_e4m3(largest / tables.top);
  BestScale best{0, std::numeric_limits<float>::infinity()};
  for (int code = std::max(1, start - kStepsDown); code <= std::min(0x7E, std::max(1, start + kStepsUp)); ++code) {
    const float error = tables.of_code[static_cast<std::size_t>(code)].squared_error(x);
    if (error < best.error) best = {static_cast<std::uint8_t>(code), error};
  }
  return best;
}

double total_error(const Codebook& codebook, const std::vector<float>& sample) {
  const Tables tables(codebook, true);
  double sum = 0;
  for (std::size_t at = 0; at < sample.size(); at += kGroup)
    sum += static_cast<double>(best_scale(tables, Group(sample.data() + at, kGroup)).error);
  return sum;
}

// One turn: the values that the codes of each level stand for, in the mean, with the scales as they are.
Codebook refit(const Codebook& codebook, const std::vector<float>& sample) {
  const Tables tables(codebook, false);
  std::array<double, 16> weighted{}, weight{};
  for (std::size_t at = 0; at < sample.size(); at += kGroup) {
    const Group x(sample.data() + at, kGroup);
    const BestScale best = best_scale(tables, x);
    const double scale = static_cast<double>(f8_values(DType::f8_e4m3)[best.code]);
    const auto codes = tables.of_code[best.code].codes(x);
    for (std::size_t i = 0; i < kGroup; ++i) {
      weighted[codes[i]] += scale * static_cast<double>(x[i]);
      weight[codes[i]] += scale * scale;
    }
  }
  Codebook out = codebook;
  for (std::size_t c = 0; c < 16; ++c)
    if (weight[c] > 0) out[c] = static_cast<float>(weighted[c] / weight[c]);
  std::sort(out.begin(), out.end());
  const float rescale = top_of(kFixed) / top_of(out);  // scales keep their usual size
  for (float& v : out) v *= rescale;
  return out;
}

class W4a8Encoder final : public MatrixEncoder {
 public:
  explicit W4a8Encoder(const MatrixSpec& spec) : MatrixEncoder(spec) {
    marker_ = fmt::format(R"({{"format": "asym_w4a8_int8", "group_size": {}, "convrot_groupsize": {}, "convrot": true{}}})", kGroup,
                          spec.rotation, spec.full_precision ? R"(, "full_precision_matrix_mult": true)" : "");
    const std::int64_t rows = spec.rows(), columns = spec.columns();
    declare(".weight", DType::i8, {rows, columns / 2});
    relative_ = declare(".weight_s_rel", DType::f8_e4m3, {rows, columns / static_cast<std::int64_t>(kGroup)});
    channel_ = declare(".weight_s_channel", DType::f32, {rows});
    book_ = declare(".weight_codebook", DType::f32, {16});
    note_ = declare(".comfy_quant", DType::u8, {static_cast<std::int64_t>(marker_.size())});
    quant_.format = QuantFormat::w4a8;
    quant_.rotation = spec.rotation;
    quant_.group = kGroup;
  }

  [[nodiscard]] Survey survey() const override { return Survey::sample; }
  void observe(std::int64_t, std::span<const float> row) override {
    std::vector<float> turned(row.begin(), row.end());
    (void)to_grid_units(turned);
    sample_.insert(sample_.end(), turned.begin(), turned.end());
  }

  void prepare() override {
    Codebook fitted = kFixed;
    double best = total_error(kFixed, sample_);
    for (int round = 0; round < kFitRounds; ++round) {
      fitted = refit(fitted, sample_);
      const double error = total_error(fitted, sample_);
      if (error < best) {
        best = error;
        codebook_ = fitted;
      }
    }
    tables_ = Tables(codebook_, true);
    sample_.clear();
    sample_.shrink_to_fit();
  }

  Result<void> encode(std::int64_t first_row, std::span<const float> values, std::vector<EncodedPiece>& pieces,
                      std::span<float> decoded) const override {
    if (auto finite = check_finite(values); !finite.ok()) return finite;
    const auto width = static_cast<std::size_t>(spec().columns()), rows = values.size() / width, groups = width / kGroup;
    SideValues sides;
    sides.table.assign(codebook_.begin(), codebook_.end());
    sides.group_scale.table = f8_values(DType::f8_e4m3);
    sides.group_scale.codes.resize(rows * groups);
    std::vector<std::uint8_t> codes(values.size() / 2);
    std::vector<float> x(width);
    for (std::size_t r = 0; r < rows; ++r) {
      std::copy_n(values.data() + r * width, width, x.data());
      sides.row_scale.push_back(to_grid_units(x));
      for (std::size_t g = 0; g < groups; ++g)
        sides.group_scale.codes[r * groups + g] =
            encode_group(Group(x.data() + g * kGroup, kGroup), codes.data() + (r * width + g * kGroup) / 2);
    }
    for (std::size_t r = 0; r < rows; ++r)
      decode_row(quant_, sides, static_cast<std::int64_t>(r), std::span(codes).subspan(r * width / 2, width / 2),
                 decoded.subspan(r * width, width));
    const auto first = static_cast<std::uint64_t>(first_row);
    pieces.push_back({0, first * width / 2, std::move(codes)});
    pieces.push_back({relative_, first * groups, std::move(sides.group_scale.codes)});
    pieces.push_back({channel_, first * sizeof(float), bytes_of(sides.row_scale)});
    return {};
  }

  [[nodiscard]] std::vector<EncodedPiece> constants() const override {
    return {{book_, 0, bytes_of(std::vector<float>(codebook_.begin(), codebook_.end()))}, {note_, 0, bytes_of_text(marker_)}};
  }

 private:
  // Turns the row and divides it by its scale, which is returned.
  [[nodiscard]] float to_grid_units(std::span<float> row) const {
    rotate(row, quant_.rotation);
    const float scale = std::max(absolute_maximum(row) / 127.0f, 1e-30f);
    for (float& v : row) v /= scale;
    return scale;
  }

  // Low nibble first.
  std::uint8_t encode_group(Group x, std::uint8_t* out) const {
    const std::uint8_t code = best_scale(tables_, x).code;
    const auto codes = tables_.of_code[code].codes(x);
    for (std::size_t i = 0; i < kGroup / 2; ++i) out[i] = static_cast<std::uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
    return code;
  }

  std::string marker_;
  std::size_t relative_ = 0, channel_ = 0, book_ = 0, note_ = 0;
  std::vector<float> sample_;
  Codebook codebook_ = kFixed;
  Tables tables_{kFixed, true};
  QuantDescription quant_;
};

}  // namespace

std::span<const float, 16> w4a8_fixed_codebook() { return kFixed; }
std::unique_ptr<MatrixEncoder> make_w4a8_encoder(const MatrixSpec& spec) { return std::make_unique<W4a8Encoder>(spec); }

}  // namespace tritium
