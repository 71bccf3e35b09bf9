// INT8 with a scale per row, with and without ConvRot (spec/weights.md §4.2), and F8_E4M3 with one scale (§4.5).
#include "weights/convert/encoder_parts.h"
#include "weights/quant/rotation.h"

#include <fmt/format.h>
#include <algorithm>
#include <atomic>

namespace tritium {
namespace {

class Int8Encoder final : public MatrixEncoder {
 public:
  explicit Int8Encoder(const MatrixSpec& spec) : MatrixEncoder(spec) {
    marker_ = R"({"format": "int8_tensorwise")";
    if (spec.rotation > 0) marker_ += fmt::format(R"(, "convrot": true, "convrot_groupsize": {})", spec.rotation);
    if (spec.full_precision) marker_ += R"(, "full_precision_matrix_mult": true)";
    marker_ += "}";
    declare(".weight", DType::i8, spec.shape);
    scale_ = declare(".weight_scale", DType::f32, {spec.rows(), 1});
    note_ = declare(".comfy_quant", DType::u8, {static_cast<std::int64_t>(marker_.size())});
    quant_.format = QuantFormat::int8;
    quant_.rotation = spec.rotation;
  }

  Result<void> encode(std::int64_t first_row, std::span<const float> values, std::vector<EncodedPiece>& pieces,
                      std::span<float> decoded) const override {
    if (auto finite = check_finite(values); !finite.ok()) return finite;
    const auto width = static_cast<std::size_t>(spec().columns()), rows = values.size() / width;
    std::vector<float> turned(width);
    SideValues sides;
    sides.row_scale.resize(rows);
    std::vector<std::uint8_t> codes(values.size());
    for (std::size_t r = 0; r < rows; ++r) {
      std::copy_n(values.data() + r * width, width, turned.data());
      if (quant_.rotation > 0) rotate(turned, quant_.rotation);
      const float scale = std::max(absolute_maximum(turned) / 127.0f, 1e-30f);
      for (std::size_t k = 0; k < width; ++k)
        codes[r * width + k] = static_cast<std::uint8_t>(static_cast<std::int8_t>(round_within(turned[k] / scale, 127.0f)));
      sides.row_scale[r] = scale;
    }
    for (std::size_t r = 0; r < rows; ++r)
      decode_row(quant_, sides, static_cast<std::int64_t>(r), std::span(codes).subspan(r * width, width),
                 decoded.subspan(r * width, width));
    pieces.push_back({0, static_cast<std::uint64_t>(first_row) * width, std::move(codes)});
    pieces.push_back({scale_, static_cast<std::uint64_t>(first_row) * sizeof(float), bytes_of(sides.row_scale)});
    return {};
  }

  [[nodiscard]] std::vector<EncodedPiece> constants() const override { return {{note_, 0, bytes_of_text(marker_)}}; }

 private:
  std::string marker_;
  std::size_t scale_ = 0, note_ = 0;
  QuantDescription quant_;
};

class Fp8Encoder final : public MatrixEncoder {
 public:
  explicit Fp8Encoder(const MatrixSpec& spec) : MatrixEncoder(spec) {
    // Without a scale for the inputs, programs that multiply in fp8 would cut them off at 448.
    marker_ = R"({"format": "float8_e4m3fn", "full_precision_matrix_mult": true})";
    declare(".weight", DType::f8_e4m3, spec.shape);
    scale_place_ = declare(".weight_scale", DType::f32, {});
    note_ = declare(".comfy_quant", DType::u8, {static_cast<std::int64_t>(marker_.size())});
  }

  [[nodiscard]] Survey survey() const override { return Survey::all; }
  void observe(std::int64_t, std::span<const float> values) override {
    const float here = absolute_maximum(values);
    float before = absmax_.load();
    while (here > before && !absmax_.compare_exchange_weak(before, here)) {}
  }
  void prepare() override { scale_ = std::max(absmax_.load() / 448.0f, 1e-30f); }

  Result<void> encode(std::int64_t first_row, std::span<const float> values, std::vector<EncodedPiece>& pieces,
                      std::span<float> decoded) const override {
    if (auto finite = check_finite(values); !finite.ok()) return finite;
    EncodedPiece piece{0, static_cast<std::uint64_t>(first_row * spec().columns()), std::vector<std::uint8_t>(values.size())};
    const std::array<float, 256>& table = f8_values(DType::f8_e4m3);
    for (std::size_t i = 0; i < values.size(); ++i) {
      piece.bytes[i] = f32_to_f8_e4m3(values[i] / scale_);
      decoded[i] = table[piece.bytes[i]] * scale_;
    }
    pieces.push_back(std::move(piece));
    return {};
  }

  [[nodiscard]] std::vector<EncodedPiece> constants() const override {
    return {{scale_place_, 0, bytes_of(std::vector<float>{scale_})}, {note_, 0, bytes_of_text(marker_)}};
  }

 private:
  std::string marker_;
  std::size_t scale_place_ = 0, note_ = 0;
  std::atomic<float> absmax_{0};
  float scale_ = 1;
};

}  // namespace

std::unique_ptr<MatrixEncoder> make_int8_encoder(const MatrixSpec& spec) { return std::make_unique<Int8Encoder>(spec); }
std::unique_ptr<MatrixEncoder> make_fp8_encoder(const MatrixSpec& spec) { return std::make_unique<Fp8Encoder>(spec); }

}  // namespace tritium
