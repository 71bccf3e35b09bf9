#include "ops/convolution.h"

#include "kernels/cpu/conv1d.h"
#include "ops/linear.h"

#include <algorithm>

namespace tritium::ops {
namespace {

ggml_tensor* add_channel_bias(Graph& graph, ggml_tensor* y, ggml_tensor* bias) {
  if (bias == nullptr) return y;
  return ggml_add(graph.context(), y, ggml_reshape_2d(graph.context(), bias, 1, bias->ne[0]));
}

ggml_tensor* time_slice(Graph& graph, ggml_tensor* x, std::int64_t first, std::int64_t count) {
  ggml_tensor* view = ggml_view_2d(graph.context(), x, count, x->ne[1], x->nb[1], static_cast<std::size_t>(first) * x->nb[0]);
  return ggml_cont(graph.context(), view);
}

// Joins parts along the time, pairwise, so that every value is copied only log(parts) times.
ggml_tensor* joined(Graph& graph, std::vector<ggml_tensor*> parts) {
  while (parts.size() > 1) {
    std::vector<ggml_tensor*> longer;
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) longer.push_back(ggml_concat(graph.context(), parts[i], parts[i + 1], 0));
    if (parts.size() % 2 == 1) longer.push_back(parts.back());
    parts = std::move(longer);
  }
  return parts.front();
}

// The convolution without its bias as a product with the unfolded input.
ggml_tensor* unfolded_conv1d(Graph& graph, const Conv1d& layer, ggml_tensor* x, int padding, int dilation) {
  ggml_context* context = graph.context();
  const std::int64_t kernel = layer.weight->ne[0], in = layer.weight->ne[1], out = layer.weight->ne[2];
  ggml_tensor* columns;  // [kernel·in, length']
  if (kernel == 1 && padding == 0) {
    columns = ggml_cont(context, ggml_transpose(context, x));
  } else {
    columns = ggml_im2col(context, layer.weight, x, 1, 0, padding, 0, dilation, 0, /*is_2D=*/false, GGML_TYPE_F32);
    columns = ggml_reshape_2d(context, columns, columns->ne[0], columns->ne[1]);
  }
  return matmul(graph, columns, ggml_reshape_2d(context, layer.weight, kernel * in, out));  // [length', out]
}

// Sources of the node: x, the weight and, if present, the bias.
void run_conv1d(ggml_tensor* dst, int thread, int threads, void* user_data) {
  const auto floats = [](const ggml_tensor* t) { return t != nullptr ? static_cast<const float*>(t->data) : nullptr; };
  static_cast<const cpu::Conv1d*>(user_data)->compute(thread, threads, floats(dst->src[0]), floats(dst->src[1]), floats(dst->src[2]),
                                                      static_cast<float*>(dst->data));
}

// nullptr when this machine has no vectorised kernel.
ggml_tensor* fast_conv1d(Graph& graph, const Conv1d& layer, ggml_tensor* x, int padding, int dilation) {
  const cpu::Isa isa = *cpu::usable_isas().begin();
  const bool usable = layer.weight->type == GGML_TYPE_F32 && ggml_is_contiguous(layer.weight);
  if (!graph.device().fast_kernels() || !cpu::conv1d_is_fast(isa) || !usable) return nullptr;
  const cpu::Conv1dShape shape{layer.weight->ne[1], layer.weight->ne[2], layer.weight->ne[0], x->ne[0], padding, dilation};
  const cpu::Conv1d kernel(shape, isa);
  if (!ggml_is_contiguous(x)) x = ggml_cont(graph.context(), x);
  graph.add_work(2.0 * static_cast<double>(shape.output_length()) * static_cast<double>(ggml_nelements(layer.weight)));
  return graph.custom("conv1d", GGML_TYPE_F32, {shape.output_length(), shape.out, 1, 1}, {x, layer.weight, layer.bias}, run_conv1d,
                      kernel.units(), graph.keep(kernel));
}

// Offset of the input sample read by tap 0 of the polyphase convolution, negative: taps cover i-reach .. i+reach.
std::int64_t polyphase_reach(std::int64_t kernel, std::int64_t stride) {
  const std::int64_t padding = (kernel - stride) / 2;
  return (stride - 1 + padding) / stride > (kernel - 1) / stride ? (stride - 1 + padding) / stride : (kernel - 1) / stride;
}

}  // namespace

ggml_tensor* conv1d(Graph& graph, const Conv1d& layer, ggml_tensor* x, int padding, int dilation, std::int64_t max_columns) {
  if (ggml_tensor* y = fast_conv1d(graph, layer, x, padding, dilation)) return y;
  const std::int64_t kernel = layer.weight->ne[0], in = layer.weight->ne[1];
  const std::int64_t reach = dilation * (kernel - 1), length = x->ne[0] + 2 * padding - reach;
  const std::int64_t step = std::clamp<std::int64_t>(max_columns / (kernel * in), 1, length);
  if (step == length) return add_channel_bias(graph, unfolded_conv1d(graph, layer, x, padding, dilation), layer.bias);

  ggml_tensor* padded = padding > 0 ? ggml_pad_ext(graph.context(), x, padding, padding, 0, 0, 0, 0, 0, 0) : x;
  std::vector<ggml_tensor*> parts;
  for (std::int64_t first = 0; first < length; first += step) {
    const std::int64_t count = std::min(step, length - first);
    parts.push_back(unfolded_conv1d(graph, layer, time_slice(graph, padded, first, count + reach), 0, dilation));
  }
  return add_channel_bias(graph, joined(graph, std::move(parts)), layer.bias);
}

std::int64_t polyphase_taps(std::int64_t kernel, std::int64_t stride) { return 2 * polyphase_reach(kernel, stride) + 1; }

std::vector<float> polyphase_weights(std::span<const float> weights, std::int64_t in, std::int64_t out, std::int64_t kernel,
                                     std::int64_t stride) {
  const std::int64_t padding = (kernel - stride) / 2, reach = polyphase_reach(kernel, stride), taps = 2 * reach + 1;
  std::vector<float> result(static_cast<std::size_t>(stride * out * in * taps), 0.0f);
  // out[stride·i + p] = sum of x[m]·w[q] over stride·m + q = stride·i + p + padding; with m = i + tap - reach this fixes q.
  for (std::int64_t p = 0; p < stride; ++p)
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t q = p + padding - stride * (tap - reach);
      if (q < 0 || q >= kernel) continue;
      for (std::int64_t o = 0; o < out; ++o)
        for (std::int64_t i = 0; i < in; ++i)
          result[static_cast<std::size_t>(((p * out + o) * in + i) * taps + tap)] =
              weights[static_cast<std::size_t>((i * out + o) * kernel + q)];
    }
  return result;
}

ggml_tensor* transposed_conv1d(Graph& graph, const Conv1d& layer, ggml_tensor* x, std::int64_t out, std::int64_t stride) {
  ggml_context* context = graph.context();
  const int padding = static_cast<int>((layer.weight->ne[0] - 1) / 2);
  ggml_tensor* phases = conv1d(graph, {layer.weight, nullptr}, x, padding, 1);  // [length, stride·out], channel = phase·out + o
  const std::int64_t length = phases->ne[0];
  phases = ggml_reshape_3d(context, phases, length, out, stride);
  ggml_tensor* interleaved = ggml_cont(context, ggml_permute(context, phases, 1, 2, 0, 3));  // [stride, length, out]
  return add_channel_bias(graph, ggml_reshape_2d(context, interleaved, stride * length, out), layer.bias);
}

ggml_tensor* pad_replicate(Graph& graph, ggml_tensor* x, int before, int after) {
  ggml_context* context = graph.context();
  const auto edge = [&](std::int64_t sample, int count) {
    ggml_tensor* column = ggml_cont(context, ggml_view_2d(context, x, 1, x->ne[1], x->nb[1], static_cast<std::size_t>(sample) * x->nb[0]));
    return ggml_repeat_4d(context, column, count, x->ne[1], 1, 1);
  };
  if (before > 0) x = ggml_concat(context, edge(0, before), x, 0);
  if (after > 0) x = ggml_concat(context, x, edge(x->ne[0] - 1, after), 0);
  return x;
}

}  // namespace tritium::ops
