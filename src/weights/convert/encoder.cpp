#include "weights/convert/encoder.h"

#include "weights/convert/encoder_parts.h"
#include "weights/ggml_types.h"
#include "weights/quant/rotation.h"

#include <fmt/format.h>
#include <algorithm>
#include <bit>

namespace tritium {
namespace {

constexpr std::string_view kWeight = ".weight";

// Ordinary element types and ggml's blocks.
class PlainEncoder final : public MatrixEncoder {
 public:
  explicit PlainEncoder(const MatrixSpec& spec) : MatrixEncoder(spec) { declare(kWeight, type(), spec.shape); }

  Result<void> encode(std::int64_t first_row, std::span<const float> values, std::vector<EncodedPiece>& pieces,
                      std::span<float> decoded) const override {
    const DTypeBlock block = dtype_block(type());
    // The elements of an ordinary type may stand anywhere; blocks fill rows.
    const std::int64_t columns = is_block_dtype(type()) ? spec().shape.back() : static_cast<std::int64_t>(values.size());
    const std::int64_t row_bytes = spec().columns() / block.values * block.bytes;
    EncodedPiece piece{0, static_cast<std::uint64_t>(first_row * row_bytes), {}};
    piece.bytes.resize(values.size() / static_cast<std::size_t>(block.values) * static_cast<std::size_t>(block.bytes));
    if (auto done = quantize(type(), values, columns, piece.bytes); !done.ok())
      return Error{done.error().code, done.error().message, spec().name, done.error().hint};
    convert_to_f32(type(), piece.bytes, decoded);
    if (type() == DType::f16)
      if (const auto bad = std::find_if(decoded.begin(), decoded.end(), [](float v) { return !std::isfinite(v); }); bad != decoded.end())
        return Error{ErrorCode::failure,
                     fmt::format("the value {} is beyond the range of F16, which ends at 65504",
                                 values[static_cast<std::size_t>(bad - decoded.begin())]),
                     spec().name, fmt::format("keep this tensor in another type: --keep '{}=bf16'", spec().name)};
    pieces.push_back(std::move(piece));
    return {};
  }

 private:
  [[nodiscard]] DType type() const { return spec().format.dtype; }
};

}  // namespace

std::unique_ptr<MatrixEncoder> make_plain_encoder(const MatrixSpec& spec) { return std::make_unique<PlainEncoder>(spec); }

std::int64_t MatrixSpec::columns() const {
  std::int64_t out = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) out *= shape[i];
  return out;
}

void MatrixEncoder::observe(std::int64_t, std::span<const float>) {}

std::size_t MatrixEncoder::declare(std::string_view suffix, DType type, std::vector<std::int64_t> shape) {
  std::string name = spec_.name;
  if (suffix != kWeight) {
    if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
    name += suffix;
  }
  outputs_.push_back({std::move(name), type, std::move(shape)});
  return outputs_.size() - 1;
}

Result<void> MatrixEncoder::check_finite(std::span<const float> values) const {
  if (std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) return {};
  return Error{ErrorCode::model, "a value of the source is not finite", spec_.name, "the source is damaged: verify it"};
}

Result<std::unique_ptr<MatrixEncoder>> MatrixEncoder::create(const MatrixSpec& spec) {
  const auto refuse = [&](std::string what) { return Error{ErrorCode::failure, std::move(what), spec.name, ""}; };
  const Encoding encoding = spec.format.encoding;
  if (encoding == Encoding::keep) return refuse("'keep' is no format of its own");
  if (encoding == Encoding::plain) {
    const bool blocks_fit =
        !is_block_dtype(spec.format.dtype) || (!spec.shape.empty() && spec.shape.back() % dtype_block(spec.format.dtype).values == 0);
    if (!blocks_fit || !can_quantize(spec.format.dtype))
      return refuse(fmt::format("{} cannot hold the shape {}", dtype_name(spec.format.dtype), shape_text(spec.shape)));
    return make_plain_encoder(spec);
  }
  if (spec.shape.size() != 2 || spec.shape[0] < 1 || spec.shape[1] < 1 || !spec.name.ends_with(kWeight))
    return refuse(
        fmt::format("{} is for matrices called '....weight', this one has the shape {}", spec.format.name, shape_text(spec.shape)));
  if (spec.rotation != 0 && (!is_rotation_group(spec.rotation) || spec.columns() % spec.rotation != 0))
    return refuse(fmt::format("a rotation group of {} does not divide {} columns", spec.rotation, spec.columns()));
  switch (encoding) {
    case Encoding::fp8:
      return make_fp8_encoder(spec);
    case Encoding::int8:
      return make_int8_encoder(spec);
    case Encoding::w4a8:
      if (spec.rotation < 16) return refuse("w4a8 needs a rotation group of 16, 64 or 256");
      return make_w4a8_encoder(spec);
    default:
      return make_nf4_encoder(spec);
  }
}

std::int64_t rotation_group_for(std::int64_t columns, bool wide_modulation) {
  for (const std::int64_t group : {256, 64, 16})
    if (columns % group == 0 && !(wide_modulation && group > 64)) return group;
  return 0;
}

std::uint8_t f32_to_f8_e4m3(float value) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float size = std::fabs(value);
  if (size >= 448.0f) return sign | 0x7E;
  // Below 2^-6 the codes count units of 2^-9; the sum with 1.5·2^23 rounds to even.
  if (size < 0.015625f) return sign | static_cast<std::uint8_t>(round_within(size * 512.0f, 8.0f));
  std::uint32_t bits = std::bit_cast<std::uint32_t>(size);
  bits += 0x7FFFFu + (bits >> 20 & 1u);  // 20 of the 23 fraction bits go
  const std::uint32_t code = (bits >> 20) - ((127u - 7u) << 3);
  return sign | static_cast<std::uint8_t>(std::min(code, 0x7Eu));
}

}  // namespace tritium
