// Speed of the CPU's kernels, by one thread, in GFLOP/s of CPU time and as a share of the core's measured limit.
//
// Operations on rows against copying as many bytes as they have to move.
//
//   bench_kernels [FILTER]
#include "kernels/cpu/attention.h"
#include "kernels/cpu/int8_matmul.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/rows.h"
#include "peak.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tritium::bench {
namespace {

std::string wanted;
double peaks[3];

std::vector<float> random_values(std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(count) + std::random_device{}());
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& v : out) v = static_cast<float>(random()) * 0x1p-31f - 1.0f;
  return out;
}

// On the boundary of a cache line, as ggml's tensors are.
class AlignedValues {
 public:
  explicit AlignedValues(std::int64_t count) : values_(random_values(count + 16)) {}
  [[nodiscard]] const float* data() const { return values_.data() + (64 - reinterpret_cast<std::uintptr_t>(values_.data()) % 64) / 4 % 16; }
  float* data() { return const_cast<float*>(std::as_const(*this).data()); }

 private:
  std::vector<float> values_;
};

bool is_wanted(const std::string& name) { return name.find(wanted) != std::string::npos; }

double best_seconds(const std::function<void()>& run) {
  double best = 1e30, spent = 0;
  for (int i = 0; i < 3 || (spent < 1.0 && i < 30); ++i) {
    const double start = thread_seconds();
    run();
    const double seconds = thread_seconds() - start;
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

void report(const std::string& name, Unit unit, double operations, const std::function<void()>& run) {
  if (!is_wanted(name)) return;
  const double best = best_seconds(run);
  const double peak = peaks[static_cast<int>(unit)];
  fmt::print("{:<64} {:9.3f} ms {:8.1f} GFLOP/s {}\n", name, best * 1e3, operations / best * 1e-9,
             peak > 0 ? fmt::format("{:5.1f} %", 100 * operations / best / peak) : "");
  std::fflush(stdout);
}

void attention(std::int64_t heads, std::int64_t rows, cpu::AttentionType type, cpu::Isa isa) {
  if (!cpu::attention_available(isa, type)) return;
  constexpr std::int64_t kWidth = 128;
  const cpu::Attention::Shape shape{kWidth, heads, heads, rows, rows, 0.088f};
  const bool narrow = type == cpu::AttentionType::bf16;
  const std::string title =
      fmt::format("attention {} {} {} heads {} rows with packing", cpu::isa_name(isa), narrow ? "bf16" : "f32", heads, rows);
  if (!is_wanted(title)) return;
  const std::int64_t row = heads * kWidth;
  const std::vector<float> q = random_values(row * rows), k = random_values(row * rows), v = random_values(row * rows);
  const cpu::Attention kernel(shape, type, isa);
  std::vector<std::uint8_t> packed(kernel.packed_bytes());
  std::vector<float> y(q.size());
  report(title, narrow ? Unit::bf16 : Unit::f32, 4.0 * static_cast<double>(row * rows) * static_cast<double>(rows), [&] {
    kernel.pack(0, 1, {k.data(), kWidth, row}, {v.data(), kWidth, row}, packed.data());
    kernel.compute(0, 1, {q.data(), kWidth, row}, packed.data(), y.data());
  });
}

// One of the transformer's layers, its weights as a file of int8 ConvRot has them.
void int8_linear(const char* layer, std::int64_t m, std::int64_t n, std::int64_t k, bool quantizing) {
  if (!is_wanted(fmt::format("int8 linear {} {}", layer, m))) return;
  const std::vector<float> x = random_values(m * k), scale = random_values(n);
  std::vector<std::int8_t> w(static_cast<std::size_t>(n * k));
  std::mt19937 random(1);
  for (std::int8_t& v : w) v = static_cast<std::int8_t>(random());
  const auto decode = [k](std::int64_t begin, std::int64_t end, const std::uint8_t* stored, std::int64_t stride, std::int8_t* out) {
    for (std::int64_t row = begin; row < end; ++row, out += stride) std::memcpy(out, stored + row * k, static_cast<std::size_t>(k));
  };
  const cpu::Int8Rows input(m, k, 256);
  const cpu::Int8Matmul product(n, decode, input);
  std::vector<std::uint8_t> quantized(input.bytes());
  std::vector<float> y(static_cast<std::size_t>(m * n));
  input.quantize(0, 1, x.data(), quantized.data());
  report(fmt::format("int8 linear {} {} rows {}->{}{}", layer, m, k, n, quantizing ? " with rotation, quantizing" : ""), Unit::int8,
         2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k), [&] {
           if (quantizing) input.quantize(0, 1, x.data(), quantized.data());
           product.compute(0, 1, quantized.data(), reinterpret_cast<const std::uint8_t*>(w.data()), scale.data(), nullptr, y.data());
         });
}

void plain_linear(const char* layer, std::int64_t m, std::int64_t n, std::int64_t k) {
  if (!is_wanted(fmt::format("bf16 linear {} {}", layer, m))) return;
  const auto kernel = cpu::make_fast_matmul({m, n, k, cpu::MatmulType::bf16, false});
  if (kernel == nullptr) return;
  std::vector<std::uint16_t> x(static_cast<std::size_t>(m * k), 0x3F80), w(static_cast<std::size_t>(n * k), 0x3F80);
  std::vector<float> y(static_cast<std::size_t>(m * n));
  report(fmt::format("bf16 linear {} {} rows {}->{}", layer, m, k, n), Unit::bf16,
         2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
         [&] { kernel->compute(0, 1, x.data(), w.data(), nullptr, y.data()); });
}

// An operation on `rows` rows of `width` values that has to read `reads` such arrays and to write one.
void row_operation(const char* name, std::int64_t rows, std::int64_t width, int reads,
                   const std::function<void(const float* x, const float* z, float* y)>& row) {
  const std::string title = fmt::format("rows {} {}x{}", name, rows, width);
  if (!is_wanted(title)) return;
  const AlignedValues x(rows * width), z(rows * width);
  AlignedValues y(rows * width);
  const auto bytes = static_cast<std::size_t>(rows * width) * sizeof(float);
  const double copying = best_seconds([&] { std::memcpy(y.data(), x.data(), bytes); }) * (reads + 1) / 2;
  const double seconds = best_seconds([&] {
    for (std::int64_t i = 0; i < rows; ++i) row(x.data() + i * width, z.data() + i * width, y.data() + i * width);
    cpu::row_functions().publish();
  });
  fmt::print("{:<64} {:9.3f} ms {:8.1f} GB/s {:5.2f} times copying\n", title, seconds * 1e3,
             static_cast<double>(rows * width) * 4 * (reads + 1) / seconds * 1e-9, seconds / copying);
}

void row_operations() {
  constexpr std::int64_t kRows = 2048, kWidth = 5376, kHeads = 56, kHead = 128;
  const AlignedValues scale(kWidth), shift(kWidth);
  const cpu::RowFunctions& run = cpu::row_functions();
  constexpr cpu::Stores kStores = cpu::stores_for(kRows * kWidth * sizeof(float));
  row_operation("norm + modulation", kRows, kWidth, 1, [&](const float* x, const float*, float* y) {
    run.modulated_norm(x, nullptr, scale.data(), shift.data(), kWidth, 1e-6f, y, kStores);
  });
  row_operation("gate + residual", kRows, kWidth, 2,
                [&](const float* x, const float* z, float* y) { run.gated_add(x, z, scale.data(), kWidth, y, kStores); });
  row_operation("query norm + rotary embedding", kRows, kHeads * kHead, 1, [&](const float* x, const float*, float* y) {
    run.norm_rotate(x, kHeads, kHead, shift.data(), scale.data(), scale.data() + kHead, kHead / 2, kHead, 1e-6f, y, kStores);
  });
}

}  // namespace
}  // namespace tritium::bench

int main(int count, char** arguments) {
  using namespace tritium;
  using namespace tritium::bench;
  if (count > 1) wanted = arguments[1];
  for (const Unit unit : {Unit::f32, Unit::bf16, Unit::int8}) peaks[static_cast<int>(unit)] = measured_peak(unit);
  fmt::print("limit of one core: f32 {:.0f}, bf16 {:.0f}, int8 {:.0f} GFLOP/s\n", peaks[0] * 1e-9, peaks[1] * 1e-9, peaks[2] * 1e-9);
  for (const cpu::Isa isa : cpu::usable_isas())
    for (const auto type : {cpu::AttentionType::f32, cpu::AttentionType::bf16})
      for (const std::int64_t size : {512, 4096}) attention(2, size, type, isa);
  attention(56, 4096, cpu::AttentionType::bf16, cpu::Isa::avx512);
  row_operations();
  for (const std::int64_t rows : {64, 1024, 4096}) {
    for (const bool quantizing : {false, true}) {
      int8_linear("qkv", rows, 21504, 5376, quantizing);
      int8_linear("out", rows, 5376, 7168, quantizing);
      int8_linear("fc1", rows, 28672, 5376, quantizing);
      int8_linear("fc2", rows, 5376, 14336, quantizing);
    }
    plain_linear("qkv", rows, 21504, 5376);
    plain_linear("out", rows, 5376, 7168);
    plain_linear("fc1", rows, 28672, 5376);
    plain_linear("fc2", rows, 5376, 14336);
  }
  return 0;
}
