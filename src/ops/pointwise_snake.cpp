#include "ops/pointwise_snake.h"

#include "kernels/cpu/pointwise_snake.h"

#include <algorithm>

namespace tritium::ops {
namespace {

// Sources of the node: x, frequency, inverse magnitude.
void run_snake(ggml_tensor* dst, int thread, int threads, void*) {
  const auto source = [dst](int i) { return static_cast<const float*>(dst->src[i]->data); };
  cpu::pointwise_snake({source(0), static_cast<float*>(dst->data), dst->ne[0], dst->ne[1], source(1), source(2)}, thread, threads,
                       *cpu::usable_isas().begin());
}

}  // namespace

ggml_tensor* pointwise_snake(Graph& graph, const PointwiseSnake& layer, ggml_tensor* x) {
  ggml_context* context = graph.context();
  if (graph.device().fast_kernels()) {
    if (!ggml_is_contiguous(x)) x = ggml_cont(context, x);
    return graph.custom("snake", GGML_TYPE_F32, {x->ne[0], x->ne[1], 1, 1}, {x, layer.frequency, layer.inverse_magnitude}, run_snake,
                        cpu::pointwise_snake_units(x->ne[0], x->ne[1]), nullptr);
  }
  const auto per_channel = [&](ggml_tensor* t) { return ggml_reshape_2d(context, t, 1, t->ne[0]); };
  ggml_tensor* wave = ggml_sqr(context, ggml_sin(context, ggml_mul(context, x, per_channel(layer.frequency))));
  return ggml_add(context, x, ggml_mul(context, wave, per_channel(layer.inverse_magnitude)));
}

}  // namespace tritium::ops
