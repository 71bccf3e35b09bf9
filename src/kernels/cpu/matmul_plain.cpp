#include "kernels/cpu/matmul.h"

#include <bit>

namespace tritium::cpu {
namespace {

class PlainMatmul final : public Matmul {
 public:
  explicit PlainMatmul(const Shape& shape) : Matmul(shape) {}

  void compute_tile(int index, const void* x, const void* w, const float* bias, float* y) const override {
    const Tile t = tile(index);
    for (std::int64_t m = t.row; m < t.row + t.rows; ++m)
      for (std::int64_t n = t.column; n < t.column + t.columns; ++n) {
        double sum = shape_.bias ? static_cast<double>(bias[n]) : 0.0;
        for (std::int64_t k = 0; k < shape_.k; ++k) sum += element(x, m * shape_.k + k) * element(w, (n - t.column) * shape_.k + k);
        y[m * shape_.n + n] = static_cast<float>(sum);
      }
  }

  [[nodiscard]] const char* name() const override { return "plain"; }

 private:
  [[nodiscard]] double element(const void* matrix, std::int64_t i) const {
    if (shape_.type == MatmulType::f32) return static_cast<const float*>(matrix)[i];
    return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(matrix)[i]) << 16);
  }
};

}  // namespace

std::shared_ptr<const Matmul> make_plain_matmul(const Matmul::Shape& shape) { return std::make_shared<PlainMatmul>(shape); }

}  // namespace tritium::cpu
