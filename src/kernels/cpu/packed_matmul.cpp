#include "kernels/cpu/packed_matmul.h"

#include "kernels/cpu/four_bit.h"

#include <bit>
#include <vector>

namespace tritium::cpu {
namespace {

// A panel of decoded rows of the widest matrix (K = 25600) still fits the second-level cache of common processors as bfloat16.
constexpr std::int64_t kPanelRows = 64;

}  // namespace

PackedMatmul::PackedMatmul(Matmul::Shape shape, Decode decode, bool plain) : shape_(shape), decode_(std::move(decode)) {
  shape_.max_tile_columns = kPanelRows;
  if (!plain) product_ = make_fast_matmul(shape_);
  if (product_ == nullptr) product_ = make_plain_matmul(shape_);
}

void PackedMatmul::compute(int thread, int threads, const void* x, const std::uint8_t* bytes, const float* bias, float* y) const {
  thread_local std::vector<float> decoded;  // room for words of bfloat16 as well
  for (int p = thread; p < panels(); p += threads) {
    const Matmul::Panel panel = product_->panel(p);
    decoded.resize(static_cast<std::size_t>(panel.count * shape_.k));
    decode_(panel.first, panel.count, bytes, decoded.data());
    product_->compute_panel(p, x, decoded.data(), bias, y);
  }
}

PackedMatmul::Decode decode_packed(std::shared_ptr<const PackedRows> packed, MatmulType type) {
  if (type == MatmulType::f32)
    return [packed = std::move(packed)](std::int64_t first, std::int64_t count, const std::uint8_t* bytes, void* out) {
      packed->decode(first, first + count, bytes, static_cast<float*>(out));
    };
  return [packed = std::move(packed)](std::int64_t first, std::int64_t count, const std::uint8_t* bytes, void* out) {
    thread_local std::vector<float> scratch;
    for (std::int64_t row = 0; row < count; ++row)
      decode_bf16(*packed, first + row, bytes, scratch, static_cast<std::uint16_t*>(out) + row * packed->columns());
  };
}

PackedMatmul::Decode widen_bf16(std::int64_t columns) {
  return [columns](std::int64_t first, std::int64_t count, const std::uint8_t* bytes, void* out) {
    const auto* in = reinterpret_cast<const std::uint16_t*>(bytes) + first * columns;
    auto* wide = static_cast<float*>(out);
    for (std::int64_t i = 0; i < count * columns; ++i) wide[i] = std::bit_cast<float>(static_cast<std::uint32_t>(in[i]) << 16);
  };
}

}  // namespace tritium::cpu
