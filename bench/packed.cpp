// Products with matrices as files store them: 7168 -> 5376, decoded a panel of rows at a time, and the decoding alone. One thread.
#include "doctor/stored_matrix.h"
#include "kernels/cpu/packed_matmul.h"
#include "of_limit.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::bench {
namespace {

using ::benchmark::State;

Device& device() {
  static const std::unique_ptr<Device> opened = Device::open("CPU", 1).value();
  return *opened;
}

// Skips the benchmark where there is no such matrix.
std::optional<doctor::StoredMatrix> stored_matrix(State& state, const std::string& format) {
  auto stored = doctor::StoredMatrix::make(device(), format, MatrixPrecision::bf16);
  if (stored.ok()) return std::move(stored.value());
  state.SkipWithError(stored.error().text().c_str());
  return std::nullopt;
}

void multiply(State& state, const std::string& format, std::int64_t rows) {
  const auto stored = stored_matrix(state, format);
  if (!stored) return;
  const WeightMatrix& w = stored->matrix;
  constexpr auto kType = cpu::MatmulType::bf16;
  const cpu::PackedMatmul product({rows, w.out(), w.in(), kType, false}, cpu::decode_packed(w.packed, kType));
  const std::vector<std::uint16_t> x(static_cast<std::size_t>(rows * w.in()), 0x3F80);
  std::vector<float> y(static_cast<std::size_t>(rows * w.out()));
  for (auto _ : state) product.compute(0, 1, x.data(), static_cast<const std::uint8_t*>(w.values->data), nullptr, y.data());
  count_operations(state, Unit::bf16, 2.0 * static_cast<double>(rows) * static_cast<double>(w.in()) * static_cast<double>(w.out()));
}

void decode(State& state, const std::string& format) {
  const auto stored = stored_matrix(state, format);
  if (!stored) return;
  const WeightMatrix& w = stored->matrix;
  constexpr std::int64_t kRows = 64;
  const auto to_bf16 = cpu::decode_packed(w.packed, cpu::MatmulType::bf16);
  std::vector<std::uint16_t> out(static_cast<std::size_t>(kRows * w.in()));
  for (auto _ : state)
    for (std::int64_t row = 0; row < w.out(); row += kRows)
      to_bf16(row, std::min(kRows, w.out() - row), static_cast<const std::uint8_t*>(w.values->data), out.data());
  state.SetItemsProcessed(state.iterations() * w.out() * w.in());
}

}  // namespace
}  // namespace tritium::bench

int main(int count, char** arguments) {
  using namespace tritium::bench;
  for (const std::string format : {"int8", "int8-convrot", "fp8", "w4a8", "nf4", "q8_0", "q6_k", "q5_k", "q4_k", "q3_k", "q2_k"}) {
    for (const std::int64_t rows : {64, 300, 2048})
      ::benchmark::RegisterBenchmark(fmt::format("{}/{} rows", format, rows).c_str(), [=](::benchmark::State& state) {
        multiply(state, format, rows);
      })->Unit(::benchmark::kMillisecond);
    ::benchmark::RegisterBenchmark(fmt::format("{}/decoding to bf16", format).c_str(), [=](::benchmark::State& state) {
      decode(state, format);
    })->Unit(::benchmark::kMillisecond);
  }
  return run_registered(count, arguments);
}
