#include "doctor/bench.h"

#include "base/system.h"
#include "base/try.h"
#include "weights/dtype.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::doctor {
namespace {

constexpr std::int64_t kPeriodsAtOnce = 32;

// The sequence from its beginning, converted by `convert`, as long as the tensor.
template <class T, class Convert>
void upload_sequence(ggml_tensor* tensor, const Values& values, Convert convert) {
  const std::int64_t total = ggml_nelements(tensor);
  const std::int64_t at_once = std::min(total, kPeriodsAtOnce * Values::kPeriod);
  std::vector<T> piece(static_cast<std::size_t>(at_once));
  const std::int64_t period = std::min(at_once, Values::kPeriod);
  std::transform(values.at(0), values.at(0) + period, piece.begin(), convert);
  for (std::int64_t i = period; i < at_once; i += period)
    std::copy_n(piece.begin(), std::min(period, at_once - i), piece.begin() + static_cast<std::ptrdiff_t>(i));
  for (std::int64_t i = 0; i < total; i += at_once)
    ggml_backend_tensor_set(tensor, piece.data(), static_cast<std::size_t>(i) * sizeof(T),
                            static_cast<std::size_t>(std::min(at_once, total - i)) * sizeof(T));
}

bool computes_nothing(const ggml_tensor* node) {
  return node->op == GGML_OP_NONE || node->op == GGML_OP_VIEW || node->op == GGML_OP_RESHAPE || node->op == GGML_OP_PERMUTE ||
         node->op == GGML_OP_TRANSPOSE;
}

}  // namespace

Result<ggml_tensor*> Bench::allocated(ggml_type type, Shape ne) {
  pools_.push_back(std::make_unique<TensorPool>(1));
  ggml_tensor* tensor = pools_.back()->add("probe", type, ne);
  TRITIUM_TRY(pools_.back()->allocate(device_, "the tensors of a check", TensorPool::Contents::undefined));
  // ggml ends the process when it finds out later.
  if (!ggml_backend_supports_op(device_.backend(), tensor))
    return Error{ErrorCode::device,
                 fmt::format("the device cannot use a tensor of {} with type {}", format_bytes(ggml_nbytes(tensor)), ggml_type_name(type)),
                 "", ""};
  return tensor;
}

Result<ggml_tensor*> Bench::tensor(ggml_type type, Shape ne, const Values& values) {
  TRITIUM_TRY_ASSIGN(ggml_tensor * tensor, allocated(type, ne));
  if (type == GGML_TYPE_BF16)
    upload_sequence<std::uint16_t>(tensor, values, f32_to_bf16);
  else
    upload_sequence<float>(tensor, values, [](float v) { return v; });
  return tensor;
}

Result<ggml_tensor*> Bench::tensor(Shape ne, std::span<const float> values) {
  TRITIUM_TRY_ASSIGN(ggml_tensor * tensor, allocated(GGML_TYPE_F32, ne));
  upload(tensor, values);
  return tensor;
}

Result<ggml_tensor*> Bench::untouched(Shape ne) { return allocated(GGML_TYPE_F32, ne); }

Result<std::vector<float>> Bench::run(const Build& build) {
  std::vector<float> out;
  TRITIUM_TRY(run(build, [&](const ggml_tensor* result) { out = download(result); }));
  return out;
}

Result<void> Bench::run(const Build& build, const std::function<void(const ggml_tensor*)>& read) {
  Graph graph(device_, "doctor");
  const ggml_tensor* result = graph.output("result", build(graph));
  const double start = monotonic_seconds();
  TRITIUM_TRY(graph.run());
  look_at(graph);
  read(result);  // waits for devices that compute on their own
  seconds_ = monotonic_seconds() - start;
  return {};
}

void Bench::look_at(const Graph& graph) {
  for (int i = 0; i < ggml_graph_n_nodes(graph.nodes()); ++i) {
    const ggml_tensor* node = ggml_graph_node(graph.nodes(), i);
    if (computes_nothing(node)) continue;
    if (node->op == GGML_OP_CUSTOM) used_kernel_ = true;
    const ggml_tensor* owner = node->view_src != nullptr ? node->view_src : node;
    if (owner->buffer == nullptr || device_.is_cpu()) continue;
    if (ggml_backend_buft_get_device(ggml_backend_buffer_get_type(owner->buffer)) != ggml_backend_get_device(device_.backend()))
      elsewhere_.insert(ggml_op_desc(node));
  }
}

std::vector<float> download_part(const ggml_tensor* tensor, std::int64_t first, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  ggml_backend_tensor_get(tensor, out.data(), static_cast<std::size_t>(first) * sizeof(float), out.size() * sizeof(float));
  return out;
}

}  // namespace tritium::doctor
