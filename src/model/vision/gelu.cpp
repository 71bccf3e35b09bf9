#include "model/vision/gelu.h"

#include <cmath>
#include <numbers>

namespace tritium {

// (1 + tanh(u))/2 = sigmoid(2u), and with 2u = x·p this is x·sigmoid(x·p) = silu(x·p)/p, where p > 0.
ggml_tensor* gelu_tanh(Graph& graph, ggml_tensor* x) {
  ggml_context* context = graph.context();
  constexpr double kSlope = 2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  ggml_tensor* p = ggml_scale_bias(context, ggml_sqr(context, x), static_cast<float>(kSlope * 0.044715), static_cast<float>(kSlope));
  return ggml_div(context, ggml_silu(context, ggml_mul(context, x, p)), p);
}

ggml_tensor* gelu_erf(Graph& graph, ggml_tensor* x) { return ggml_gelu_erf(graph.context(), x); }

}  // namespace tritium
