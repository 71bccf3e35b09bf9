#include "ops/rotation.h"

#include "weights/quant/rotation.h"

#include <algorithm>

namespace tritium::ops {
namespace {

// Each task takes a share of the rows.
void run_rotation(ggml_tensor* dst, int task, int tasks, void* user_data) {
  const std::int64_t group = *static_cast<const std::int64_t*>(user_data);
  const ggml_tensor* x = dst->src[0];
  const std::int64_t rows = ggml_nrows(dst), width = dst->ne[0];
  const std::int64_t begin = rows * task / tasks, end = rows * (task + 1) / tasks;
  const auto* in = static_cast<const float*>(x->data) + begin * width;
  auto* out = static_cast<float*>(dst->data) + begin * width;
  for (std::int64_t row = begin; row < end; ++row, in += width, out += width) {
    std::copy_n(in, width, out);
    rotate({out, static_cast<std::size_t>(width)}, group);
  }
}

// H itself: the rotated unit vectors.
std::vector<float> rotation_matrix(std::int64_t group) {
  std::vector<float> h(static_cast<std::size_t>(group * group), 0.0f);
  for (std::int64_t i = 0; i < group; ++i) h[static_cast<std::size_t>(i * group + i)] = 1.0f;
  rotate(h, group);
  return h;
}

}  // namespace

ggml_tensor* rotate_groups(Graph& graph, ggml_tensor* x, std::int64_t group) {
  ggml_context* context = graph.context();
  if (!ggml_is_contiguous(x)) x = ggml_cont(context, x);
  if (graph.device().fast_kernels()) {
    constexpr double kOperationsPerValue = 8;
    graph.add_work(kOperationsPerValue * static_cast<double>(ggml_nelements(x)));
    return graph.custom("rotation", GGML_TYPE_F32, Graph::extents(x), {x}, run_rotation, graph.device().threads(), graph.keep(group));
  }
  ggml_tensor* h = graph.input("rotation", rotation_matrix(group), {group, group});
  ggml_tensor* groups = ggml_reshape_2d(context, x, group, ggml_nelements(x) / group);
  ggml_tensor* rotated = ggml_mul_mat(context, h, groups);
  ggml_prec_set_acc(rotated, GGML_PREC_F32);
  return ggml_reshape_4d(context, rotated, x->ne[0], x->ne[1], x->ne[2], x->ne[3]);
}

}  // namespace tritium::ops
