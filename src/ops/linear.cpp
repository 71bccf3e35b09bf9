#include "ops/linear.h"

#include "kernels/cpu/matmul.h"

namespace tritium::ops {
namespace {

using MatmulPtr = std::shared_ptr<const cpu::Matmul>;

// Sources of the node: x, w and, if present, the bias.
void run_matmul(ggml_tensor* dst, int thread, int threads, void* user_data) {
  const auto& kernel = **static_cast<MatmulPtr*>(user_data);
  const ggml_tensor* bias = dst->src[2];
  kernel.compute(thread, threads, dst->src[0]->data, dst->src[1]->data, bias != nullptr ? static_cast<const float*>(bias->data) : nullptr,
                 static_cast<float*>(dst->data));
}

// w [k, n], x [k, m] of the same type.
ggml_tensor* fast_product(Graph& graph, ggml_tensor* w, ggml_tensor* x, ggml_tensor* bias) {
  const auto type = w->type == GGML_TYPE_BF16 ? cpu::MatmulType::bf16 : cpu::MatmulType::f32;
  MatmulPtr kernel = cpu::make_fast_matmul({ggml_nrows(x), w->ne[1], w->ne[0], type, bias != nullptr});
  if (kernel == nullptr) return nullptr;
  graph.add_work(2.0 * static_cast<double>(ggml_nrows(x)) * static_cast<double>(w->ne[1]) * static_cast<double>(w->ne[0]));
  const int tasks = std::min(kernel->tiles(), graph.device().threads());
  ggml_tensor* arguments[] = {x, w, bias};
  return ggml_custom_4d(graph.context(), GGML_TYPE_F32, w->ne[1], x->ne[1], x->ne[2], x->ne[3], arguments, bias != nullptr ? 3 : 2,
                        run_matmul, tasks, graph.keep(std::move(kernel)));
}

}  // namespace

ggml_tensor* linear(Graph& graph, const Linear& layer, ggml_tensor* x) {
  ggml_context* context = graph.context();
  ggml_tensor* w = layer.weight;
  const bool known_type = w->type == GGML_TYPE_F32 || w->type == GGML_TYPE_BF16;
  if (graph.device().fast_kernels() && known_type) {
    if (!ggml_is_contiguous(x)) x = ggml_cont(context, x);
    ggml_tensor* source = w->type == GGML_TYPE_F32 ? x : ggml_cast(context, x, GGML_TYPE_BF16);
    if (ggml_tensor* y = fast_product(graph, w, source, layer.bias)) return y;
  }
  ggml_tensor* y = ggml_mul_mat(context, w, x);
  ggml_prec_set_acc(y, GGML_PREC_F32);
  return layer.bias != nullptr ? ggml_add(context, y, layer.bias) : y;
}

ggml_tensor* matmul(Graph& graph, ggml_tensor* a, ggml_tensor* b) {
  if (graph.device().fast_kernels() && ggml_is_contiguous(a) && ggml_is_contiguous(b) && a->ne[2] * a->ne[3] == 1)
    if (ggml_tensor* y = fast_product(graph, a, b, nullptr)) return y;
  ggml_tensor* y = ggml_mul_mat(graph.context(), a, b);
  ggml_prec_set_acc(y, GGML_PREC_F32);
  return y;
}

ggml_tensor* silu_gate(Graph& graph, ggml_tensor* x) { return ggml_swiglu(graph.context(), x); }

}  // namespace tritium::ops
