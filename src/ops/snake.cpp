#include "ops/snake.h"

#include "kernels/cpu/snake.h"
#include "ops/convolution.h"

#include <algorithm>

namespace tritium::ops {
namespace {

// One filter of a bank as a depthwise convolution: x [length, channels] -> [1, positions, channels].
ggml_tensor* filter_by_depthwise(Graph& graph, ggml_tensor* x, ggml_tensor* bank, std::int64_t phase, int stride) {
  ggml_context* context = graph.context();
  const std::int64_t taps = bank->ne[0], channels = x->ne[1];
  ggml_tensor* filter = ggml_view_1d(context, bank, taps, static_cast<std::size_t>(phase) * bank->nb[1]);
  ggml_tensor* kernel = ggml_repeat_4d(context, filter, taps, 1, 1, channels);
  ggml_tensor* signals = ggml_reshape_4d(context, x, x->ne[0], 1, channels, 1);
  ggml_tensor* y = ggml_conv_2d_dw_direct(context, kernel, signals, stride, 1, 0, 0, 1, 1);
  return ggml_reshape_3d(context, y, 1, y->ne[0], channels);
}

// The same for a whole bank as one product, for devices without that operation: x -> [phases, positions, channels].
ggml_tensor* filter_by_product(Graph& graph, ggml_tensor* x, ggml_tensor* bank, int stride) {
  ggml_context* context = graph.context();
  ggml_tensor* signals = ggml_reshape_3d(context, x, x->ne[0], 1, x->ne[1]);          // one-channel signals, channels as batch
  ggml_tensor* kernel = ggml_reshape_3d(context, bank, bank->ne[0], 1, bank->ne[1]);  // only its shape is used
  ggml_tensor* windows = ggml_im2col(context, kernel, signals, stride, 0, 0, 0, 1, 0, /*is_2D=*/false, GGML_TYPE_F32);
  ggml_tensor* y = ggml_mul_mat(context, bank, windows);
  ggml_prec_set_acc(y, GGML_PREC_F32);
  return y;
}

// Applies a small filter bank to every channel: x [length, channels] -> [phases, positions, channels].
ggml_tensor* filter_channels(Graph& graph, ggml_tensor* x, ggml_tensor* bank, int stride) {
  ggml_tensor* y = filter_by_depthwise(graph, x, bank, 0, stride);
  if (!graph.device().supports(y->src[0])) return filter_by_product(graph, x, bank, stride);
  for (std::int64_t phase = 1; phase < bank->ne[1]; ++phase)
    y = ggml_concat(graph.context(), y, filter_by_depthwise(graph, x, bank, phase, stride), 0);
  return y;
}

// Sources of the node: x, frequency, inverse magnitude, both filter banks.
void run_snake(ggml_tensor* dst, int thread, int threads, void*) {
  const auto source = [dst](int i) { return static_cast<const float*>(dst->src[i]->data); };
  const cpu::SnakeArguments arguments{source(0), static_cast<float*>(dst->data), dst->ne[0], dst->ne[1], source(1), source(2), source(3),
                                      source(4)};
  cpu::alias_free_snake(arguments, thread, threads, *cpu::usable_isas().begin());
}

ggml_tensor* fast_snake(Graph& graph, const AliasFreeSnake& layer, ggml_tensor* x) {
  if (!ggml_is_contiguous(x)) x = ggml_cont(graph.context(), x);
  constexpr double kPerValue = 100;  // two filters of 12 taps and two sines
  graph.add_work(kPerValue * static_cast<double>(ggml_nelements(x)));
  return graph.custom("alias-free snake", GGML_TYPE_F32, {x->ne[0], x->ne[1], 1, 1},
                      {x, layer.frequency, layer.inverse_magnitude, layer.up, layer.down}, run_snake, cpu::snake_units(x->ne[0], x->ne[1]),
                      nullptr);
}

}  // namespace

std::vector<float> upsampling_phases(std::span<const float> filter) {
  // u[2i] = 2·sum f[2j+1]·x[i+2-j], u[2i+1] = 2·sum f[2j]·x[i+3-j], j = 0..5, over the window x[i-3 .. i+3].
  std::vector<float> phases(14, 0.0f);
  for (std::size_t j = 0; j < 6; ++j) {
    phases[5 - j] = 2.0f * filter[2 * j + 1];
    phases[7 + 6 - j] = 2.0f * filter[2 * j];
  }
  return phases;
}

ggml_tensor* alias_free_snake(Graph& graph, const AliasFreeSnake& layer, ggml_tensor* x) {
  if (graph.device().fast_kernels()) return fast_snake(graph, layer, x);
  ggml_context* context = graph.context();
  const std::int64_t length = x->ne[0], channels = x->ne[1];
  ggml_tensor* up = filter_channels(graph, pad_replicate(graph, x, 3, 3), layer.up, 1);  // [2, length, channels]
  up = ggml_reshape_2d(context, up, 2 * length, channels);
  const auto per_channel = [&](ggml_tensor* t) { return ggml_reshape_2d(context, t, 1, channels); };
  ggml_tensor* wave = ggml_sqr(context, ggml_sin(context, ggml_mul(context, up, per_channel(layer.frequency))));
  ggml_tensor* active = ggml_add(context, up, ggml_mul(context, wave, per_channel(layer.inverse_magnitude)));
  ggml_tensor* down = filter_channels(graph, pad_replicate(graph, active, 5, 5), layer.down, 2);  // window s[2i-5 .. 2i+6]
  return ggml_reshape_2d(context, down, length, channels);
}

}  // namespace tritium::ops
