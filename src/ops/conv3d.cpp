#include "ops/conv3d.h"

#include "kernels/cpu/conv3d.h"

#include <algorithm>

namespace tritium::ops {
namespace {

static_assert(kConv3dTaps == cpu::kConv3dTaps && kConv3dPast == cpu::kConv3dPast);

// Sources of the node: x, weight, bias and, if present, the frames before.
void run_conv3d(ggml_tensor* dst, int thread, int threads, void* user_data) {
  const auto source = [dst](int i) { return dst->src[i] != nullptr ? static_cast<const float*>(dst->src[i]->data) : nullptr; };
  static_cast<const cpu::Conv3d*>(user_data)->compute(thread, threads,
                                                      {source(0), source(3), source(1), source(2), static_cast<float*>(dst->data)});
}

// nullptr when this machine has no vectorised kernel.
ggml_tensor* fast_conv3d(Graph& graph, const Conv3d& layer, ggml_tensor* x, ggml_tensor* before, const Conv3dStride& stride) {
  const cpu::Isa isa = *cpu::usable_isas().begin();
  if (!graph.device().fast_kernels() || !cpu::conv3d_is_fast(isa)) return nullptr;
  ggml_context* context = graph.context();
  if (!ggml_is_contiguous(x)) x = ggml_cont(context, x);
  const cpu::Conv3dShape shape{layer.in(), layer.out(), x->ne[1], x->ne[2], x->ne[3], stride.space, stride.time, stride.phase};
  const cpu::Conv3d kernel(shape, isa);
  graph.add_work(2.0 * static_cast<double>(shape.positions()) * static_cast<double>(ggml_nelements(layer.weight)));
  return graph.custom("conv3d", GGML_TYPE_F32, {shape.out, shape.output_width(), shape.output_height(), shape.output_frames()},
                      {x, layer.weight, layer.bias, before}, run_conv3d, kernel.units(), graph.keep(kernel));
}

// `count` slices of dimension `dim` from `first` on, every `step`-th.
ggml_tensor* slices(Graph& graph, ggml_tensor* x, int dim, std::int64_t first, std::int64_t count, std::int64_t step = 1) {
  std::int64_t ne[] = {x->ne[0], x->ne[1], x->ne[2], x->ne[3]};
  std::size_t nb[] = {x->nb[0], x->nb[1], x->nb[2], x->nb[3]};
  ne[dim] = count;
  nb[dim] *= static_cast<std::size_t>(step);
  return ggml_view_4d(graph.context(), x, ne[0], ne[1], ne[2], ne[3], nb[1], nb[2], nb[3], static_cast<std::size_t>(first) * x->nb[dim]);
}

// One more slice at the end of dimension `dim`, and at its beginning if `both`: those next to the edges.
ggml_tensor* reflect(Graph& graph, ggml_tensor* x, int dim, bool both) {
  ggml_context* context = graph.context();
  const auto slice = [&](std::int64_t i) { return ggml_cont(context, slices(graph, x, dim, i, 1)); };
  ggml_tensor* behind = slice(x->ne[dim] - 2);
  if (both) x = ggml_concat(context, slice(1), x, dim);
  return ggml_concat(context, x, behind, dim);
}

constexpr std::int64_t kPlaneTaps = cpu::kConv3dSize * cpu::kConv3dSize;

// The part of the weight that meets one frame, as a matrix [plane taps · in, out] in the order of ggml_im2col: channel, tap.
ggml_tensor* frame_weight(Graph& graph, const Conv3d& layer, std::int64_t time_tap) {
  ggml_context* context = graph.context();
  ggml_tensor* taps = slices(graph, layer.weight, 2, time_tap * kPlaneTaps, kPlaneTaps);  // [out, in, plane taps]
  return ggml_reshape_2d(context, ggml_cont(context, ggml_permute(context, taps, 2, 1, 0, 3)), kPlaneTaps * layer.in(), layer.out());
}

// Output rows first .. first + count - 1 of a picture [width, height, channels, frames] that is already continued beyond its border.
// Of the kernel's frames the last `time_taps` count; the first output frame begins at frame `start` of the picture.
ggml_tensor* rows_of_conv3d(Graph& graph, const Conv3d& layer, ggml_tensor* picture, const cpu::Conv3dShape& shape, std::int64_t first,
                            std::int64_t count, std::int64_t time_taps, std::int64_t start) {
  ggml_context* context = graph.context();
  const auto stride = static_cast<int>(shape.space_stride);
  ggml_tensor* rows = picture;
  if (count < shape.output_height())
    rows = ggml_cont(context, slices(graph, picture, 1, first * stride, (count - 1) * stride + cpu::kConv3dSize));
  ggml_tensor* kernel =
      ggml_new_tensor_4d(context, GGML_TYPE_F32, cpu::kConv3dSize, cpu::kConv3dSize, shape.in, shape.out);  // only its shape is used
  ggml_tensor* columns = ggml_im2col(context, kernel, rows, stride, stride, 0, 0, 1, 1, /*is_2D=*/true, GGML_TYPE_F32);
  ggml_tensor* sum = nullptr;
  for (std::int64_t tap = 0; tap < time_taps; ++tap) {
    ggml_tensor* part = slices(graph, columns, 3, start + tap, shape.output_frames(), shape.time_stride);
    if (!ggml_is_contiguous(part)) part = ggml_cont(context, part);
    // As rows: not every device repeats a matrix over two further dimensions.
    ggml_tensor* product = ggml_mul_mat(context, frame_weight(graph, layer, cpu::kConv3dSize - time_taps + tap),
                                        ggml_reshape_2d(context, part, part->ne[0], ggml_nrows(part)));
    ggml_prec_set_acc(product, GGML_PREC_F32);
    product = ggml_reshape_4d(context, product, layer.out(), part->ne[1], part->ne[2], part->ne[3]);
    sum = sum == nullptr ? product : ggml_add(context, sum, product);
  }
  return sum;
}

// By way of the unfolded input, so many rows at a time that it stays small.
ggml_tensor* plain_conv3d(Graph& graph, const Conv3d& layer, ggml_tensor* x, ggml_tensor* before, const Conv3dStride& stride,
                          std::int64_t max_columns) {
  ggml_context* context = graph.context();
  const cpu::Conv3dShape shape{layer.in(), layer.out(), x->ne[1], x->ne[2], x->ne[3], stride.space, stride.time, stride.phase};
  // A single frame without frames in front meets only the last part of the kernel; otherwise the first frame needed is put at number 0.
  const bool alone = before == nullptr && shape.frames == 1;
  if (before != nullptr)
    x = ggml_concat(context, before, x, 3);
  else if (!alone)
    x = ggml_pad_ext(context, x, 0, 0, 0, 0, 0, 0, kConv3dPast, 0);
  const std::int64_t time_taps = alone ? 1 : cpu::kConv3dSize, start = alone ? 0 : stride.phase;
  ggml_tensor* picture = ggml_cont(context, ggml_permute(context, x, 2, 0, 1, 3));  // [width, height, in, frames]
  picture = reflect(graph, reflect(graph, picture, 0, stride.space == 1), 1, stride.space == 1);

  const std::int64_t row_columns = kPlaneTaps * shape.in * shape.output_width() * picture->ne[3];
  const std::int64_t step = std::clamp<std::int64_t>(max_columns / row_columns, 1, shape.output_height());
  ggml_tensor* joined = nullptr;
  for (std::int64_t first = 0; first < shape.output_height(); first += step) {
    const std::int64_t count = std::min(step, shape.output_height() - first);
    ggml_tensor* part = rows_of_conv3d(graph, layer, picture, shape, first, count, time_taps, start);
    joined = joined == nullptr ? part : ggml_concat(context, joined, part, 2);
  }
  return ggml_add(context, joined, layer.bias);
}

}  // namespace

std::vector<float> conv3d_weights(std::span<const float> weights, std::int64_t in, std::int64_t out) {
  std::vector<float> result(weights.size());
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t i = 0; i < in; ++i)
      for (std::int64_t tap = 0; tap < kConv3dTaps; ++tap)
        result[static_cast<std::size_t>((tap * in + i) * out + o)] = weights[static_cast<std::size_t>((o * in + i) * kConv3dTaps + tap)];
  return result;
}

ggml_tensor* conv3d(Graph& graph, const Conv3d& layer, ggml_tensor* x, ggml_tensor* before, const Conv3dStride& stride,
                    std::int64_t max_columns) {
  if (ggml_tensor* y = fast_conv3d(graph, layer, x, before, stride)) return y;
  return plain_conv3d(graph, layer, x, before, stride, max_columns);
}

}  // namespace tritium::ops
