#include "ops/group_norm.h"

#include "kernels/cpu/group_norm.h"
#include "ops/norm.h"

#include <algorithm>

namespace tritium::ops {
namespace {

struct Task {
  cpu::GroupNormShape shape;
  float eps;
};

const float* floats(const ggml_tensor* tensor) { return static_cast<const float*>(tensor->data); }

void run_sums(ggml_tensor* dst, int thread, int threads, void* user_data) {
  cpu::group_norm_sums(static_cast<const Task*>(user_data)->shape, floats(dst->src[0]), static_cast<double*>(dst->data), thread, threads);
}

// Sources of the node: x, the sums, weight, bias.
void run_apply(ggml_tensor* dst, int thread, int threads, void* user_data) {
  const auto& task = *static_cast<const Task*>(user_data);
  cpu::group_norm_apply(task.shape, floats(dst->src[0]), static_cast<const double*>(dst->src[1]->data), floats(dst->src[2]),
                        floats(dst->src[3]), task.eps, static_cast<float*>(dst->data), thread, threads);
}

ggml_tensor* fast_group_norm(Graph& graph, ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias, int groups, float eps) {
  ggml_context* context = graph.context();
  if (!ggml_is_contiguous(x)) x = ggml_cont(context, x);
  Task* task = graph.keep(Task{{x->ne[0], groups, x->ne[1] * x->ne[2], x->ne[3]}, eps});
  const cpu::GroupNormShape& shape = task->shape;
  ggml_tensor* sums =
      graph.custom("group sums", GGML_TYPE_F64, {shape.sums(), shape.parts(), shape.frames, 1}, {x}, run_sums, shape.units(), task);
  return graph.custom("group norm", GGML_TYPE_F32, Graph::extents(x), {x, sums, weight, bias}, run_apply, shape.units(), task);
}

}  // namespace

ggml_tensor* group_norm(Graph& graph, ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias, int groups, float eps) {
  if (graph.device().fast_kernels()) return fast_group_norm(graph, x, weight, bias, groups, eps);
  ggml_context* context = graph.context();
  const std::int64_t per_group = x->ne[0] / groups, positions = x->ne[1] * x->ne[2], frames = x->ne[3];
  if (!ggml_is_contiguous(x)) x = ggml_cont(context, x);
  ggml_tensor* by_position = ggml_reshape_4d(context, x, per_group, groups, positions, frames);
  ggml_tensor* by_group = ggml_cont(context, ggml_permute(context, by_position, 0, 2, 1, 3));  // [per_group, positions, groups, frames]
  ggml_tensor* normed = standardized(graph, ggml_reshape_3d(context, by_group, per_group * positions, groups, frames), eps);
  normed = ggml_permute(context, ggml_reshape_4d(context, normed, per_group, positions, groups, frames), 0, 2, 1, 3);
  normed = ggml_cont_4d(context, normed, x->ne[0], x->ne[1], x->ne[2], x->ne[3]);
  return ggml_add(context, ggml_mul(context, normed, weight), bias);
}

}  // namespace tritium::ops
