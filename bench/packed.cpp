// Products with matrices as files store them: 7168 -> 5376, decoded a panel of rows at a time. One thread.
//
//   bench_packed [ROWS] [FORMAT...]
#include "doctor/stored_matrix.h"
#include "kernels/cpu/packed_matmul.h"
#include "peak.h"

#include <fmt/format.h>
#include <algorithm>

int main(int count, char** arguments) {
  using namespace tritium;
  const std::int64_t rows = count > 1 ? std::stoi(arguments[1]) : 300;
  std::vector<std::string> formats = {"int8", "int8-convrot", "fp8", "w4a8", "nf4", "q8_0", "q6_k", "q5_k", "q4_k", "q3_k", "q2_k"};
  if (count > 2) formats.assign(arguments + 2, arguments + count);
  const double peak = bench::measured_peak(bench::Unit::bf16);
  fmt::print("limit of one core, bf16: {:.0f} GFLOP/s; {} rows\n", peak * 1e-9, rows);
  auto device = Device::open("CPU", 1);
  if (!device.ok()) return 1;
  for (const std::string& format : formats) {
    auto stored = doctor::StoredMatrix::make(**device, format, MatrixPrecision::bf16);
    if (!stored.ok()) {
      fmt::print("{}: {}\n", format, stored.error().text());
      continue;
    }
    const WeightMatrix& w = stored->matrix;
    constexpr auto kType = cpu::MatmulType::bf16;
    const cpu::PackedMatmul product({rows, w.out(), w.in(), kType, false}, cpu::decode_packed(w.packed, kType));
    const std::vector<std::uint16_t> x(static_cast<std::size_t>(rows * w.in()), 0x3F80);
    std::vector<float> y(static_cast<std::size_t>(rows * w.out())), decoded(static_cast<std::size_t>(64 * w.in()));
    const auto* bytes = static_cast<const std::uint8_t*>(w.values->data);
    double whole = 1e30, decoding = 1e30;
    for (int i = 0; i < 4; ++i) {
      double start = bench::thread_seconds();
      product.compute(0, 1, x.data(), bytes, nullptr, y.data());
      whole = std::min(whole, bench::thread_seconds() - start);
      start = bench::thread_seconds();
      for (std::int64_t row = 0; row < w.out(); row += 64) w.packed->decode(row, std::min(w.out(), row + 64), bytes, decoded.data());
      decoding = std::min(decoding, bench::thread_seconds() - start);
    }
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(w.in()) * static_cast<double>(w.out());
    fmt::print("{:<14} {:8.1f} ms {:7.1f} GFLOP/s {:5.1f} %; decoding to float32 alone {:7.1f} ms\n", format, whole * 1e3,
               flops / whole * 1e-9, 100 * flops / whole / peak, decoding * 1e3);
  }
  return 0;
}
