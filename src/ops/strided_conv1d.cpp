#include "ops/strided_conv1d.h"

namespace tritium::ops {

std::vector<float> strided_weights(std::span<const float> weights, std::int64_t in, std::int64_t out, std::int64_t stride) {
  std::vector<float> result(weights.size());
  for (std::int64_t row = 0; row < out * in; ++row)
    for (std::int64_t k = 0; k < 2 * stride; ++k)
      result[static_cast<std::size_t>((row * stride + k % stride) * 2 + k / stride)] =
          weights[static_cast<std::size_t>(row * 2 * stride + k)];
  return result;
}

ggml_tensor* strided_conv1d(Graph& graph, const Conv1d& layer, ggml_tensor* x, std::int64_t stride) {
  ggml_context* context = graph.context();
  const auto front = static_cast<int>((stride + 1) / 2), behind = static_cast<int>(stride) - front;
  const std::int64_t in = x->ne[1], groups = x->ne[0] / stride + 1;
  ggml_tensor* padded = ggml_pad_ext(context, x, front, behind, 0, 0, 0, 0, 0, 0);
  ggml_tensor* dealt = ggml_reshape_3d(context, padded, stride, groups, in);
  dealt = ggml_cont_2d(context, ggml_permute(context, dealt, 1, 0, 2, 3), groups, stride * in);
  return conv1d(graph, layer, dealt, 0, 1);
}

}  // namespace tritium::ops
