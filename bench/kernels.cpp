// Speed of the CPU's kernels, by one thread, as a share of the core's measured limit; operations on rows against copying as many bytes as
// they have to move. For options see --help of any program of Google Benchmark.
#include "kernels/cpu/attention.h"
#include "kernels/cpu/int8_matmul.h"
#include "kernels/cpu/int8_tile.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/rows.h"
#include "of_limit.h"

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

using ::benchmark::State;

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

void add(const std::string& name, const std::function<void(State&)>& run) {
  ::benchmark::RegisterBenchmark(name.c_str(), run)->Unit(::benchmark::kMillisecond)->MinTime(1.0);
}

void add_attention(std::int64_t heads, std::int64_t rows, cpu::AttentionType type, cpu::Isa isa) {
  if (!cpu::attention_available(isa, type)) return;
  const bool narrow = type == cpu::AttentionType::bf16;
  const std::string name =
      fmt::format("attention/{} {}/{} heads/{} rows with packing", cpu::isa_name(isa), narrow ? "bf16" : "f32", heads, rows);
  add(name, [=](State& state) {
    constexpr std::int64_t kWidth = 128;
    const std::int64_t row = heads * kWidth;
    const std::vector<float> q = random_values(row * rows), k = random_values(row * rows), v = random_values(row * rows);
    const cpu::Attention kernel({kWidth, heads, heads, rows, rows, 0.088f}, type, isa);
    std::vector<std::uint8_t> packed(kernel.packed_bytes());
    std::vector<float> y(q.size());
    for (auto _ : state) {
      kernel.pack(0, 1, {k.data(), kWidth, row}, {v.data(), kWidth, row}, packed.data());
      kernel.compute(0, 1, {q.data(), kWidth, row}, packed.data(), y.data());
    }
    count_operations(state, narrow ? Unit::bf16 : Unit::f32, 4.0 * static_cast<double>(row * rows) * static_cast<double>(rows));
  });
}

struct Layer {
  const char* name;
  std::int64_t n, k;
  [[nodiscard]] double operations(std::int64_t m) const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// One of the transformer's layers, its weights as a file of int8 ConvRot has them.
void add_int8_linear(const Layer& layer, std::int64_t m, const cpu::Int8Functions& run, bool quantizing) {
  add(fmt::format("int8 linear/{}/{} {}->{}/{} rows{}", run.name, layer.name, layer.k, layer.n, m,
                  quantizing ? " with rotation and quantization" : ""),
      [=, &run](State& state) {
        const auto [_, n, k] = layer;
        const std::vector<float> x = random_values(m * k), scale = random_values(n);
        std::vector<std::int8_t> w(static_cast<std::size_t>(n * k));
        std::mt19937 random(1);
        for (std::int8_t& v : w) v = static_cast<std::int8_t>(random());
        const auto decode = [k = k](std::int64_t begin, std::int64_t end, const std::uint8_t* stored, std::int64_t stride,
                                    std::int8_t* out) {
          for (std::int64_t row = begin; row < end; ++row, out += stride) std::memcpy(out, stored + row * k, static_cast<std::size_t>(k));
        };
        const cpu::Int8Rows input(m, k, 256, run);
        const cpu::Int8Matmul product(n, decode, input);
        std::vector<std::uint8_t> quantized(input.bytes());
        std::vector<float> y(static_cast<std::size_t>(m * n));
        input.quantize(0, 1, x.data(), quantized.data());
        for (auto round : state) {
          if (quantizing) input.quantize(0, 1, x.data(), quantized.data());
          product.compute(0, 1, quantized.data(), reinterpret_cast<const std::uint8_t*>(w.data()), scale.data(), nullptr, y.data());
        }
        count_operations(state, Unit::int8, layer.operations(m));
      });
}

void add_linear(const Layer& layer, std::int64_t m, cpu::MatmulType type) {
  const bool narrow = type == cpu::MatmulType::bf16;
  if (cpu::make_fast_matmul({64, 64, 64, type, false}) == nullptr) return;
  add(fmt::format("{} linear/{} {}->{}/{} rows", narrow ? "bf16" : "f32", layer.name, layer.k, layer.n, m), [=](State& state) {
    const auto kernel = cpu::make_fast_matmul({m, layer.n, layer.k, type, false});
    const std::size_t bytes = narrow ? 2 : 4;
    const std::vector<std::uint8_t> x(static_cast<std::size_t>(m * layer.k) * bytes, 0x3F),
        w(static_cast<std::size_t>(layer.n * layer.k) * bytes, 0x3F);
    std::vector<float> y(static_cast<std::size_t>(m * layer.n));
    for (auto _ : state) kernel->compute(0, 1, x.data(), w.data(), nullptr, y.data());
    count_operations(state, narrow ? Unit::bf16 : Unit::f32, layer.operations(m));
  });
}

double seconds_to_copy(const AlignedValues& from, AlignedValues& to, std::size_t bytes) {
  double best = 1e30;
  for (int i = 0; i < 20; ++i) {
    const double start = thread_seconds();
    std::memcpy(to.data(), from.data(), bytes);
    best = std::min(best, thread_seconds() - start);
  }
  return best;
}

// An operation on `rows` rows of `width` values that has to read `reads` such arrays and to write one.
void add_row_operation(const char* name, std::int64_t rows, std::int64_t width, int reads,
                       const std::function<void(const float* x, const float* z, float* y)>& row) {
  add(fmt::format("rows/{}/{}x{}", name, rows, width), [=](State& state) {
    const AlignedValues x(rows * width), z(rows * width);
    AlignedValues y(rows * width);
    const auto bytes = static_cast<std::size_t>(rows * width) * sizeof(float);
    const double copying = seconds_to_copy(x, y, bytes) * (reads + 1) / 2;
    for (auto _ : state) {
      for (std::int64_t i = 0; i < rows; ++i) row(x.data() + i * width, z.data() + i * width, y.data() + i * width);
      cpu::row_functions().publish();
    }
    using ::benchmark::Counter;
    state.counters["B/s"] = Counter(static_cast<double>(bytes) * (reads + 1), Counter::kIsIterationInvariantRate, Counter::kIs1000);
    state.counters["times copying"] = Counter(copying, Counter::kIsIterationInvariantRate | Counter::kInvert);
  });
}

void add_row_operations() {
  constexpr std::int64_t kRows = 2048, kWidth = 5376, kHeads = 56, kHead = 128;
  static const AlignedValues scale(kWidth), shift(kWidth);
  const cpu::RowFunctions& run = cpu::row_functions();
  constexpr cpu::Stores kStores = cpu::stores_for(kRows * kWidth * sizeof(float));
  add_row_operation("norm and modulation", kRows, kWidth, 1, [&run](const float* x, const float*, float* y) {
    run.modulated_norm(x, nullptr, scale.data(), shift.data(), kWidth, 1e-6f, y, kStores);
  });
  add_row_operation("gate and residual", kRows, kWidth, 2,
                    [&run](const float* x, const float* z, float* y) { run.gated_add(x, z, scale.data(), kWidth, y, kStores); });
  add_row_operation("head norm and rotary embedding", kRows, kHeads * kHead, 1, [&run](const float* x, const float*, float* y) {
    run.norm_rotate(x, kHeads, kHead, shift.data(), scale.data(), scale.data() + kHead, kHead / 2, kHead, 1e-6f, y, kStores);
  });
}

void add_all() {
  for (const cpu::Isa isa : cpu::usable_isas())
    for (const auto type : {cpu::AttentionType::f32, cpu::AttentionType::bf16})
      for (const std::int64_t rows : {512, 4096}) add_attention(2, rows, type, isa);
  add_attention(56, 4096, cpu::AttentionType::bf16, cpu::Isa::avx512);
  add_row_operations();
  for (const std::int64_t rows : {64, 1024, 4096})
    for (const Layer& layer : {Layer{"qkv", 21504, 5376}, {"out", 5376, 7168}, {"fc1", 28672, 5376}, {"fc2", 5376, 14336}}) {
      for (const cpu::Int8Functions* run : cpu::usable_int8_functions())
        if (cpu::fast_int8() && run != cpu::usable_int8_functions().back())
          for (const bool quantizing : {false, true}) add_int8_linear(layer, rows, *run, quantizing);
      for (const auto type : {cpu::MatmulType::bf16, cpu::MatmulType::f32}) add_linear(layer, rows, type);
    }
}

}  // namespace
}  // namespace tritium::bench

int main(int count, char** arguments) {
  tritium::bench::add_all();
  return tritium::bench::run_registered(count, arguments);
}
