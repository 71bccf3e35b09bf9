#include "kernels/cpu/packed_matmul.h"

#include "kernels/cpu/four_bit.h"

namespace tritium::cpu {
namespace {

// A panel of decoded rows of the widest matrix (K = 25600) still fits the second-level cache of common processors as bfloat16.
constexpr std::int64_t kPanelRows = 64;

}  // namespace

PackedMatmul::PackedMatmul(std::shared_ptr<const PackedRows> packed, std::int64_t m, MatmulType type, bool bias, bool plain)
    : packed_(std::move(packed)), type_(type) {
  const Matmul::Shape shape{m, packed_->rows(), packed_->columns(), type, bias, kPanelRows};
  if (!plain) product_ = make_fast_matmul(shape);
  if (product_ == nullptr) product_ = make_plain_matmul(shape);
}

void PackedMatmul::compute(int thread, int threads, const void* x, const std::uint8_t* bytes, const float* bias, float* y) const {
  const std::int64_t columns = packed_->columns();
  thread_local std::vector<float> decoded;
  thread_local std::vector<std::uint16_t> rounded;
  for (int p = thread; p < panels(); p += threads) {
    const Matmul::Panel panel = product_->panel(p);
    if (type_ == MatmulType::f32) {
      decoded.resize(static_cast<std::size_t>(panel.count * columns));
      packed_->decode(panel.first, panel.first + panel.count, bytes, decoded.data());
      product_->compute_panel(p, x, decoded.data(), bias, y);
      continue;
    }
    rounded.resize(static_cast<std::size_t>(panel.count * columns));
    for (std::int64_t row = 0; row < panel.count; ++row)
      decode_bf16(*packed_, panel.first + row, bytes, decoded, rounded.data() + row * columns);
    product_->compute_panel(p, x, rounded.data(), bias, y);
  }
}

}  // namespace tritium::cpu
