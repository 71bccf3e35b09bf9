#include "ops/linear.h"

#include "kernels/cpu/four_bit.h"
#include "kernels/cpu/int8_matmul.h"
#include "kernels/cpu/packed_matmul.h"
#include "ops/rotation.h"

namespace tritium::ops {
namespace {

using MatmulPtr = std::shared_ptr<const cpu::Matmul>;

double product_operations(const ggml_tensor* x, std::int64_t out, std::int64_t in) {
  return 2.0 * static_cast<double>(ggml_nrows(x)) * static_cast<double>(out) * static_cast<double>(in);
}

const float* bias_of(const ggml_tensor* dst) {
  const ggml_tensor* bias = dst->src[2];
  return bias != nullptr ? static_cast<const float*>(bias->data) : nullptr;
}

// Sources of both nodes: x, w and, if present, the bias.
void run_matmul(ggml_tensor* dst, int thread, int threads, void* user_data) {
  const auto& kernel = **static_cast<MatmulPtr*>(user_data);
  kernel.compute(thread, threads, dst->src[0]->data, dst->src[1]->data, bias_of(dst), static_cast<float*>(dst->data));
}
void run_packed_matmul(ggml_tensor* dst, int thread, int threads, void* user_data) {
  const auto& kernel = *static_cast<cpu::PackedMatmul*>(user_data);
  kernel.compute(thread, threads, dst->src[0]->data, static_cast<const std::uint8_t*>(dst->src[1]->data), bias_of(dst),
                 static_cast<float*>(dst->data));
}

ggml_tensor* product_node(Graph& graph, const char* kind, ggml_tensor* x, ggml_tensor* w, ggml_tensor* bias, std::int64_t out,
                          ggml_custom_op_t run, int pieces, void* user_data) {
  return graph.custom(kind, GGML_TYPE_F32, {out, x->ne[1], x->ne[2], x->ne[3]}, {x, w, bias}, run, pieces, user_data);
}

// w [k, n], x [k, m] of the same type.
ggml_tensor* fast_product(Graph& graph, ggml_tensor* w, ggml_tensor* x, ggml_tensor* bias) {
  const auto type = w->type == GGML_TYPE_BF16 ? cpu::MatmulType::bf16 : cpu::MatmulType::f32;
  MatmulPtr kernel = cpu::make_fast_matmul({ggml_nrows(x), w->ne[1], w->ne[0], type, bias != nullptr});
  if (kernel == nullptr) return nullptr;
  graph.add_work(product_operations(x, w->ne[1], w->ne[0]));
  const int tiles = kernel->tiles();
  return product_node(graph, w->type == GGML_TYPE_BF16 ? "bf16 product" : "f32 product", x, w, bias, w->ne[1], run_matmul, tiles,
                      graph.keep(std::move(kernel)));
}

// Whether matrices of bfloat16 meet float32 inputs: where the processor has no products of bfloat16, but fast ones of float32.
bool widens_bf16(const Graph& graph) { return graph.device().fast_kernels() && cpu::fast_f32() && !cpu::fast_bf16(); }

// w: the stored rows, which `decode` makes rows of x's type of.
ggml_tensor* decoded_product(Graph& graph, ggml_tensor* w, std::int64_t in, const cpu::PackedMatmul::Decode& decode, ggml_tensor* x,
                             ggml_tensor* bias) {
  const auto type = x->type == GGML_TYPE_BF16 ? cpu::MatmulType::bf16 : cpu::MatmulType::f32;
  cpu::PackedMatmul kernel({ggml_nrows(x), w->ne[1], in, type, bias != nullptr}, decode, !graph.device().fast_kernels());
  graph.add_work(product_operations(x, w->ne[1], in));
  const int panels = kernel.panels();
  return product_node(graph, type == cpu::MatmulType::bf16 ? "bf16 product, decoding" : "f32 product, decoding", x, w, bias, w->ne[1],
                      run_packed_matmul, panels, graph.keep(std::move(kernel)));
}

ggml_tensor* packed_product(Graph& graph, const WeightMatrix& weight, ggml_tensor* x, ggml_tensor* bias) {
  const bool narrow = weight.product != MatrixPrecision::f32 && !widens_bf16(graph);
  if (narrow) x = ggml_cast(graph.context(), x, GGML_TYPE_BF16);
  const auto type = narrow ? cpu::MatmulType::bf16 : cpu::MatmulType::f32;
  return decoded_product(graph, weight.values, weight.in(), cpu::decode_packed(weight.packed, type), x, bias);
}

void run_quantize(ggml_tensor* dst, int thread, int threads, void* user_data) {
  static_cast<const cpu::Int8Rows*>(user_data)->quantize(thread, threads, static_cast<const float*>(dst->src[0]->data),
                                                         static_cast<std::uint8_t*>(dst->data));
}
// Sources: quantized rows, stored rows, row scale, and, if present, the bias.
void run_int8_matmul(ggml_tensor* dst, int thread, int threads, void* user_data) {
  const auto data = [dst](int i) { return dst->src[i] != nullptr ? dst->src[i]->data : nullptr; };
  static_cast<const cpu::Int8Matmul*>(user_data)->compute(thread, threads, static_cast<const std::uint8_t*>(data(0)),
                                                          static_cast<const std::uint8_t*>(data(1)), static_cast<const float*>(data(2)),
                                                          static_cast<const float*>(data(3)), static_cast<float*>(dst->data));
}

// The whole layer, from the input as it is to the bias.
ggml_tensor* int8_linear(Graph& graph, const WeightMatrix& weight, ggml_tensor* x, ggml_tensor* bias) {
  ggml_context* context = graph.context();
  if (!ggml_is_contiguous(x)) x = ggml_cont(context, x);
  const auto functions = cpu::usable_int8_functions();
  const cpu::Int8Functions& run = graph.device().fast_kernels() ? *functions.front() : *functions.back();
  auto* rows = graph.keep(cpu::Int8Rows(ggml_nrows(x), weight.in(), weight.rotation, run));
  const auto decode = [packed = weight.packed](std::int64_t begin, std::int64_t end, const std::uint8_t* stored, std::int64_t stride,
                                               std::int8_t* out) { cpu::decode_integers(*packed, begin, end, stored, stride, out); };
  auto* product = graph.keep(cpu::Int8Matmul(weight.out(), decode, *rows));
  ggml_tensor* quantized = graph.custom("quantization", GGML_TYPE_I8, {static_cast<std::int64_t>(rows->bytes()), 1, 1, 1}, {x},
                                        run_quantize, rows->units(), rows);
  graph.add_work(product_operations(x, weight.out(), weight.in()));
  return graph.custom("int8 product", GGML_TYPE_F32, {weight.out(), x->ne[1], x->ne[2], x->ne[3]},
                      {quantized, weight.values, weight.row_scale, bias}, run_int8_matmul, product->units(), product);
}

// U · x + b, without the factors beside U.
ggml_tensor* product(Graph& graph, const WeightMatrix& weight, ggml_tensor* x, ggml_tensor* bias) {
  ggml_context* context = graph.context();
  ggml_tensor* w = weight.values;
  const bool known_type = w->type == GGML_TYPE_F32 || w->type == GGML_TYPE_BF16;
  // The kernels need it, and the Vulkan backend brings rows that are apart together as float16.
  if (!ggml_is_contiguous(x)) x = ggml_cont(context, x);
  if (weight.packed) return packed_product(graph, weight, x, bias);
  if (graph.device().fast_kernels() && known_type) {
    if (w->type == GGML_TYPE_BF16 && widens_bf16(graph)) return decoded_product(graph, w, w->ne[0], cpu::widen_bf16(w->ne[0]), x, bias);
    ggml_tensor* source = w->type == GGML_TYPE_F32 ? x : ggml_cast(context, x, GGML_TYPE_BF16);
    if (ggml_tensor* y = fast_product(graph, w, source, bias)) return y;
  }
  // As rows: not every device repeats a matrix over two further dimensions.
  ggml_tensor* rows = x;
  if (x->ne[3] > 1) rows = ggml_reshape_2d(context, x, x->ne[0], ggml_nrows(x));
  ggml_tensor* y = ggml_mul_mat(context, w, rows);
  ggml_prec_set_acc(y, GGML_PREC_F32);
  if (x->ne[3] > 1) y = ggml_reshape_4d(context, y, w->ne[1], x->ne[1], x->ne[2], x->ne[3]);
  return bias != nullptr ? ggml_add(context, y, bias) : y;
}

}  // namespace

ggml_tensor* linear(Graph& graph, const Linear& layer, ggml_tensor* x) {
  ggml_context* context = graph.context();
  const WeightMatrix& weight = layer.weight;
  ggml_tensor* y = nullptr;
  if (weight.packed && weight.product == MatrixPrecision::int8 && weight.row_scale != nullptr) {
    y = int8_linear(graph, weight, x, layer.bias);
  } else {
    ggml_tensor* input = weight.column_factor != nullptr ? ggml_mul(context, x, weight.column_factor) : x;
    if (weight.rotation != 0) input = rotate_groups(graph, input, weight.rotation);
    if (weight.row_scale == nullptr) {
      y = product(graph, weight, input, layer.bias);
    } else {
      y = ggml_mul(context, product(graph, weight, input, nullptr), weight.row_scale);
      if (layer.bias != nullptr) y = ggml_add(context, y, layer.bias);
    }
  }
  if (layer.lora_down == nullptr) return y;
  return ggml_add(context, y, product(graph, layer.lora_up, product(graph, layer.lora_down, x, nullptr), nullptr));
}

bool fast_int8_products() { return cpu::fast_int8(); }

MatrixPrecision product_precision(const Linear& layer) {
  if (layer.weight.packed) return layer.weight.product;
  return layer.weight.values->type == GGML_TYPE_BF16 ? MatrixPrecision::bf16 : MatrixPrecision::f32;
}

ggml_tensor* matmul(Graph& graph, ggml_tensor* a, ggml_tensor* b) {
  if (graph.device().fast_kernels() && ggml_is_contiguous(a) && ggml_is_contiguous(b) && a->ne[2] * a->ne[3] == 1)
    if (ggml_tensor* y = fast_product(graph, a, b, nullptr)) return y;
  for (ggml_tensor** factor : {&a, &b})
    if (!ggml_is_contiguous(*factor)) *factor = ggml_cont(graph.context(), *factor);
  ggml_tensor* y = ggml_mul_mat(graph.context(), a, b);
  ggml_prec_set_acc(y, GGML_PREC_F32);
  return y;
}

ggml_tensor* silu_gate(Graph& graph, ggml_tensor* x) { return ggml_swiglu(graph.context(), x); }

}  // namespace tritium::ops
