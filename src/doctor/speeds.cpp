#include "doctor/speeds.h"

#include "base/parallel.h"
#include "base/system.h"
#include "base/try.h"
#include "doctor/bench.h"
#include "doctor/stored_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tritium::doctor {
namespace {

// One measurement takes about this long on a slow device.
constexpr double kSeconds = 0.3;
constexpr std::uint64_t kCopyBytes = 64u << 20;
constexpr int kRepeats = 3;

// The least of several runs.
template <class Run>
Result<double> best_seconds(int repeats, const CancelToken* cancel, Run run) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("measuring"));
    TRITIUM_TRY_ASSIGN(const double seconds, run());
    best = std::min(best, seconds);
  }
  return best;
}

// What grows with the rows, and what does not.
struct Growth {
  double per_row = 0, once = 0;  // seconds
};

// From few rows to as many as the time allows.
Result<Growth> growth(Bench& bench, std::int64_t few, std::int64_t most, const CancelToken* cancel,
                      const std::function<Result<Bench::Build>(std::int64_t rows)>& make) {
  const auto time = [&](std::int64_t rows, int repeats) -> Result<double> {
    TRITIUM_TRY_ASSIGN(const Bench::Build build, make(rows));
    return best_seconds(repeats, cancel, [&]() -> Result<double> {
      TRITIUM_TRY(bench.run(build, [](const ggml_tensor* result) { download_part(result, 0, 1); }));
      return bench.seconds();
    });
  };
  TRITIUM_TRY(time(few, 1));  // code is compiled, pages are touched
  TRITIUM_TRY_ASSIGN(const double small, time(few, 2));
  const double affordable = static_cast<double>(few) * kSeconds / std::max(small, 1e-6);
  const auto many = static_cast<std::int64_t>(std::clamp(affordable, 2.0 * static_cast<double>(few), static_cast<double>(most)));
  TRITIUM_TRY_ASSIGN(const double large, time(many, small > kSeconds ? 1 : 2));
  if (large - small <= 0.25 * large) return Growth{large / static_cast<double>(many), 0};
  const double per_row = (large - small) / static_cast<double>(many - few);
  return Growth{per_row, std::max(0.0, small - static_cast<double>(few) * per_row)};
}

Result<ProductSpeed> linear_speed(Device& device, const WeightMatrix& matrix, const CancelToken* cancel) {
  Bench bench(device);
  const ops::Linear layer{matrix, nullptr, nullptr, nullptr};
  TRITIUM_TRY_ASSIGN(const Growth seconds, growth(bench, 64, 1024, cancel, [&](std::int64_t rows) -> Result<Bench::Build> {
                       TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({matrix.in(), rows}, Values(1)));
                       return Bench::Build([x, &layer](Graph& graph) { return ops::linear(graph, layer, x); });
                     }));
  const double values = static_cast<double>(matrix.in()) * static_cast<double>(matrix.out());
  return ProductSpeed{2 * values / seconds.per_row, seconds.once > 0 ? values / seconds.once : 0};
}

Result<ProductSpeed> plain_speed(Device& device, ggml_type type, const CancelToken* cancel) {
  Bench bench(device);
  TRITIUM_TRY_ASSIGN(ggml_tensor * w, bench.tensor(type, {StoredMatrix::kIn, StoredMatrix::kOut}, Values(2, 0.01)));
  return linear_speed(device, w, cancel);
}

// Needs a folder for a temporary file: worth less than the rest, and nothing where there is none.
Result<ProductSpeed> stored_speed(Device& device, const char* format, MatrixPrecision precision, const CancelToken* cancel) {
  const auto stored = StoredMatrix::make(device, format, precision);
  return stored.ok() ? linear_speed(device, stored->matrix, cancel) : Result<ProductSpeed>(ProductSpeed{});
}

Result<double> attention_speed(Device& device, MatrixPrecision precision, const CancelToken* cancel) {
  constexpr std::int64_t kDim = 128, kHeads = 56, kKeys = 2048;
  Bench bench(device);
  TRITIUM_TRY_ASSIGN(ggml_tensor * k, bench.tensor({kDim, kHeads, kKeys}, Values(3)));
  TRITIUM_TRY_ASSIGN(ggml_tensor * v, bench.tensor({kDim, kHeads, kKeys}, Values(4)));
  TRITIUM_TRY_ASSIGN(const Growth seconds, growth(bench, 32, 1024, cancel, [&](std::int64_t rows) -> Result<Bench::Build> {
                       TRITIUM_TRY_ASSIGN(ggml_tensor * q, bench.tensor({kDim, kHeads, rows}, Values(5)));
                       return Bench::Build([q, k, v, precision](Graph& graph) {
                         return ops::attention(graph, q, k, v, 0.088f, ops::AttentionMask::none, ops::kMaxAttentionScores, precision);
                       });
                     }));
  return 4.0 * kDim * kHeads * kKeys / seconds.per_row;
}

// Seconds per sample of half a residual block of the audio decoder: an activation and a convolution.
constexpr std::int64_t kSoundKernel = 7;
Result<double> sound_seconds(Device& device, std::int64_t channels, const CancelToken* cancel) {
  Bench bench(device);
  ops::AliasFreeSnake snake;
  ops::Conv1d convolution;
  TRITIUM_TRY_ASSIGN(snake.frequency, bench.tensor({channels}, Values(6)));
  TRITIUM_TRY_ASSIGN(snake.inverse_magnitude, bench.tensor({channels}, Values(7)));
  TRITIUM_TRY_ASSIGN(snake.up, bench.tensor({7, 2}, Values(8)));
  TRITIUM_TRY_ASSIGN(snake.down, bench.tensor({12, 1}, Values(9)));
  TRITIUM_TRY_ASSIGN(convolution.weight, bench.tensor({kSoundKernel, channels, channels}, Values(10, 0.02)));
  TRITIUM_TRY_ASSIGN(convolution.bias, bench.tensor({channels}, Values(11)));
  TRITIUM_TRY_ASSIGN(const Growth seconds, growth(bench, 512, 1 << 16, cancel, [&](std::int64_t samples) -> Result<Bench::Build> {
                       TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({samples, channels}, Values(12)));
                       return Bench::Build([x, &snake, &convolution](Graph& graph) {
                         return ops::conv1d(graph, convolution, ops::alias_free_snake(graph, snake, x), kSoundKernel / 2, 1);
                       });
                     }));
  return seconds.per_row;
}

// With many channels nearly all is operations; what a few need beyond theirs goes by their values.
Result<ProductSpeed> sound_speed(Device& device, const CancelToken* cancel) {
  constexpr std::int64_t kMany = 256, kFew = 16;
  const auto operations = [](std::int64_t channels) { return 2.0 * static_cast<double>(channels * channels * kSoundKernel); };
  TRITIUM_TRY_ASSIGN(const double many, sound_seconds(device, kMany, cancel));
  TRITIUM_TRY_ASSIGN(const double few, sound_seconds(device, kFew, cancel));
  const double each = many / operations(kMany), beyond = few - operations(kFew) * each;
  return ProductSpeed{1 / each, beyond > 0 ? kFew / beyond : 0};
}

Result<double> host_copy_speed(int threads, const CancelToken* cancel) {
  const std::vector<std::uint8_t> from(kCopyBytes, 1);
  std::vector<std::uint8_t> to(kCopyBytes);
  const std::uint64_t each = kCopyBytes / static_cast<std::uint64_t>(threads);
  TRITIUM_TRY_ASSIGN(const double seconds, best_seconds(kRepeats, cancel, [&]() -> Result<double> {
                       const double start = monotonic_seconds();
                       TRITIUM_TRY(for_each_parallel(threads, threads, [&](std::int64_t i) -> Result<void> {
                         std::memcpy(to.data() + static_cast<std::uint64_t>(i) * each, from.data() + static_cast<std::uint64_t>(i) * each,
                                     each);
                         return {};
                       }));
                       return monotonic_seconds() - start;
                     }));
  return static_cast<double>(each * static_cast<std::uint64_t>(threads)) / seconds;
}

Result<double> upload_speed(Device& device, const CancelToken* cancel) {
  Bench bench(device);
  const std::vector<float> values(kCopyBytes / sizeof(float), 1.0f);
  TRITIUM_TRY_ASSIGN(ggml_tensor * tensor, bench.untouched({static_cast<std::int64_t>(values.size())}));
  TRITIUM_TRY_ASSIGN(const double seconds, best_seconds(kRepeats, cancel, [&]() -> Result<double> {
                       const double start = monotonic_seconds();
                       upload(tensor, values);
                       ggml_backend_synchronize(device.backend());
                       return monotonic_seconds() - start;
                     }));
  return static_cast<double>(kCopyBytes) / seconds;
}

}  // namespace

Result<MeasuredSpeeds> measure_speeds(Device& device, const CancelToken* cancel) {
  MeasuredSpeeds out;
  out.device = device.info().name;
  out.description = device.info().description;
  out.threads = device.threads();
  out.measured = utc_timestamp();
  TRITIUM_TRY_ASSIGN(out.host_copy, host_copy_speed(device.threads(), cancel));
  out.upload = out.host_copy;
  if (!device.is_cpu()) { TRITIUM_TRY_ASSIGN(out.upload, upload_speed(device, cancel)); }
  TRITIUM_TRY_ASSIGN(out.of(ProductKind::f32), plain_speed(device, GGML_TYPE_F32, cancel));
  TRITIUM_TRY_ASSIGN(out.of(ProductKind::bf16), plain_speed(device, GGML_TYPE_BF16, cancel));
  TRITIUM_TRY_ASSIGN(out.of(ProductKind::decoded), stored_speed(device, "int8", MatrixPrecision::bf16, cancel));
  if (device.fast_kernels() && ops::fast_int8_products()) {
    TRITIUM_TRY_ASSIGN(out.of(ProductKind::int8), stored_speed(device, "int8-convrot", MatrixPrecision::int8, cancel));
  }
  TRITIUM_TRY_ASSIGN(out.of(ProductKind::sound), sound_speed(device, cancel));
  TRITIUM_TRY_ASSIGN(out.attention, attention_speed(device, MatrixPrecision::f32, cancel));
  TRITIUM_TRY_ASSIGN(out.narrow_attention, attention_speed(device, MatrixPrecision::bf16, cancel));
  return out;
}

}  // namespace tritium::doctor
