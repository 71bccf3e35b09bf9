#include "weights/time_network.h"

#include "base/parallel.h"
#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>

namespace tritium {
namespace {

double silu(double v) { return v / (1 + std::exp(-v)); }

double dot(const double* a, const double* b, std::int64_t n) {
  std::array<double, 4> sum{};
  for (std::int64_t i = 0; i < n; ++i) sum[static_cast<std::size_t>(i % 4)] += a[i] * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

Error bad(std::string message, std::string field) { return Error{ErrorCode::model, std::move(message), std::move(field), ""}; }

Result<std::vector<float>> read_shaped(const Checkpoint& checkpoint, const std::string& name, const std::vector<std::int64_t>& shape) {
  const TensorInfo* tensor = checkpoint.find(name);
  if (tensor == nullptr) return bad("the tensor is missing", name);
  if (tensor->shape != shape) return bad(fmt::format("it is {}, expected {}", shape_text(tensor->shape), shape_text(shape)), name);
  TRITIUM_TRY_ASSIGN(std::vector<float> values, checkpoint.read_f32(*tensor));
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
    return bad("it holds values that are not finite", name);
  return values;
}

}  // namespace

// spec/dit.md §4.3: [cos(t·f), sin(t·f)], f_i = exp(−ln(10000)·i/half).
Result<std::vector<double>> TimeNetwork::curve(std::span<const double> times, int threads, const CancelToken* cancel) const {
  const std::vector<double> in(in_weight.begin(), in_weight.end()), out(out_weight.begin(), out_weight.end());
  const std::int64_t half = sinusoid() / 2;
  std::vector<double> g(times.size() * static_cast<std::size_t>(width()));
  const auto one = [&](std::int64_t p) -> Result<void> {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("the curve table"));
    std::vector<double> wave(static_cast<std::size_t>(2 * half)), middle(static_cast<std::size_t>(hidden()));
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          times[static_cast<std::size_t>(p)] * std::exp(-std::log(10000.0) * static_cast<double>(i) / static_cast<double>(half));
      wave[static_cast<std::size_t>(i)] = std::cos(angle);
      wave[static_cast<std::size_t>(half + i)] = std::sin(angle);
    }
    for (std::int64_t h = 0; h < hidden(); ++h) {
      const auto at = static_cast<std::size_t>(h);
      middle[at] = silu(dot(in.data() + h * sinusoid(), wave.data(), sinusoid()) + static_cast<double>(in_bias[at]));
    }
    for (std::int64_t w = 0; w < width(); ++w)
      g[static_cast<std::size_t>(p * width() + w)] =
          silu(dot(out.data() + w * hidden(), middle.data(), hidden()) + static_cast<double>(out_bias[static_cast<std::size_t>(w)]));
    return {};
  };
  TRITIUM_TRY(for_each_parallel(static_cast<std::int64_t>(times.size()), threads, one));
  return g;
}

std::vector<double> equally_spaced(std::int64_t points) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < points; ++i) out.push_back(static_cast<double>(i) / static_cast<double>(points - 1));
  return out;
}

Result<std::optional<TimeNetwork>> read_time_network(const Checkpoint& checkpoint) {
  for (const char* prefix : {"", "model.diffusion_model.", "diffusion_model.", "model.", "transformer."})
    for (const auto& [in, out] : {std::pair("proj_in", "proj_out"), std::pair("linear_1", "linear_2")}) {
      const std::string in_name = fmt::format("{}time_embedder.{}", prefix, in), out_name = fmt::format("{}time_embedder.{}", prefix, out);
      const TensorInfo* first = checkpoint.find(in_name + ".weight");
      if (first == nullptr) continue;
      if (first->shape.size() != 2 || first->shape[1] % 2 != 0 || first->shape[1] < 2)
        return bad(fmt::format("it is {}, expected [hidden, even width]", shape_text(first->shape)), first->name);
      const TensorInfo* second = checkpoint.find(out_name + ".weight");
      const std::int64_t hidden = first->shape[0], width = second != nullptr && second->shape.size() == 2 ? second->shape[0] : 0;
      TimeNetwork network;
      TRITIUM_TRY_ASSIGN(network.in_weight, read_shaped(checkpoint, in_name + ".weight", first->shape));
      TRITIUM_TRY_ASSIGN(network.in_bias, read_shaped(checkpoint, in_name + ".bias", {hidden}));
      TRITIUM_TRY_ASSIGN(network.out_weight, read_shaped(checkpoint, out_name + ".weight", {width, hidden}));
      TRITIUM_TRY_ASSIGN(network.out_bias, read_shaped(checkpoint, out_name + ".bias", {width}));
      return std::optional(std::move(network));
    }
  return std::optional<TimeNetwork>();
}

}  // namespace tritium
