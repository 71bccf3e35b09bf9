#include "device/graph.h"

#include "base/try.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tritium {
namespace {

constexpr std::int64_t kWatchParts = 64;

// dst[part]: NaN if a value of that part of the source is not finite, else 0.
void run_watch(ggml_tensor* dst, int task, int tasks, void*) {
  constexpr std::uint32_t kExponent = 0x7F800000u;
  const std::int64_t parts = dst->ne[0], count = ggml_nelements(dst->src[0]);
  const auto* words = static_cast<const std::uint8_t*>(dst->src[0]->data);
  for (std::int64_t part = task; part < parts; part += tasks) {
    bool bad = false;
    for (std::int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, words + i * 4, sizeof(bits));
      bad |= (bits & kExponent) == kExponent;
    }
    static_cast<float*>(dst->data)[part] = bad ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
}

}  // namespace

Graph::Graph(Device& device, std::string scope, std::size_t max_nodes)
    : device_(device),
      scope_(std::move(scope)),
      context_(ggml_init({max_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(max_nodes, false), nullptr, /*no_alloc=*/true})),
      graph_(ggml_new_graph_custom(context_.get(), max_nodes, false)) {}

ggml_tensor* Graph::input(const std::string& name, std::span<const float> values, std::initializer_list<std::int64_t> ne) {
  ggml_tensor* tensor = ggml_new_tensor(context_.get(), GGML_TYPE_F32, static_cast<int>(ne.size()), ne.begin());
  GGML_ASSERT(ggml_nbytes(tensor) == values.size_bytes());
  ggml_set_name(tensor, name.c_str());
  ggml_set_input(tensor);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  uploads_.push_back({tensor, {bytes, bytes + values.size_bytes()}});
  return tensor;
}

ggml_tensor* Graph::input_i32(const std::string& name, std::span<const std::int32_t> values) {
  ggml_tensor* tensor = ggml_new_tensor_1d(context_.get(), GGML_TYPE_I32, static_cast<std::int64_t>(values.size()));
  ggml_set_name(tensor, name.c_str());
  ggml_set_input(tensor);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  uploads_.push_back({tensor, {bytes, bytes + values.size_bytes()}});
  return tensor;
}

ggml_tensor* Graph::custom(const char* kind, ggml_type type, const Extents& ne, std::initializer_list<ggml_tensor*> sources,
                           ggml_custom_op_t work, std::int64_t pieces, void* user_data) {
  std::vector<ggml_tensor*> arguments(sources);
  while (arguments.back() == nullptr) arguments.pop_back();
  const auto tasks = static_cast<int>(std::min<std::int64_t>(pieces, device_.threads()));
  ggml_tensor* node = ggml_custom_4d(context_.get(), type, ne[0], ne[1], ne[2], ne[3], arguments.data(), static_cast<int>(arguments.size()),
                                     work, tasks, user_data);
  return ggml_set_name(node, kind);
}

ggml_tensor* Graph::name(const std::string& name, ggml_tensor* tensor) {
  const bool kind_is_name = tensor->op == GGML_OP_CUSTOM;
  ggml_set_name(tensor, (kind_is_name ? std::string(tensor->name) + " " + name : name).c_str());
  if (device_.observer()) {
    if (!ggml_is_contiguous(tensor) || tensor->type != GGML_TYPE_F32) {
      ggml_tensor* copy =
          tensor->type == GGML_TYPE_F32 ? ggml_cont(context_.get(), tensor) : ggml_cast(context_.get(), tensor, GGML_TYPE_F32);
      ggml_set_output(copy);
      ggml_build_forward_expand(graph_, copy);
      observed_.emplace_back(scope_ + "." + name, copy);
    } else {
      ggml_set_output(tensor);
      ggml_build_forward_expand(graph_, tensor);
      observed_.emplace_back(scope_ + "." + name, tensor);
    }
  }
  return tensor;
}

ggml_tensor* Graph::output(const std::string& name, ggml_tensor* tensor) {
  if (!ggml_is_contiguous(tensor)) tensor = ggml_cont(context_.get(), tensor);
  this->name(name, tensor);
  ggml_set_output(tensor);
  ggml_build_forward_expand(graph_, tensor);
  return tensor;
}

void Graph::effect(ggml_tensor* tensor) { ggml_build_forward_expand(graph_, tensor); }

void Graph::watch(ggml_tensor* tensor) {
  ggml_tensor* sum;
  if (device_.fast_kernels() && tensor->type == GGML_TYPE_F32 && ggml_is_contiguous(tensor)) {
    const std::int64_t parts = std::min(kWatchParts, ggml_nelements(tensor));
    sum = custom("finite", GGML_TYPE_F32, {parts, 1, 1, 1}, {tensor}, run_watch, parts, nullptr);
  } else {
    sum = ggml_sum(context_.get(), tensor);
  }
  ggml_set_output(sum);
  ggml_build_forward_expand(graph_, sum);
  watched_.push_back(sum);
}

Result<void> Graph::run(const CancelToken* cancel) {
  lock_ = device_.lock();
  std::vector<ggml_tensor*> inputs;
  for (const Upload& each : uploads_) inputs.push_back(each.tensor);
  TRITIUM_TRY(device_.allocate(graph_, scope_, inputs));
  for (const Upload& each : uploads_)
    if (each.tensor->buffer != nullptr) ggml_backend_tensor_set(each.tensor, each.bytes.data(), 0, each.bytes.size());
  TRITIUM_TRY(device_.run(graph_, custom_operations_, cancel));
  for (const auto& [name, tensor] : observed_) {
    const std::vector<float> values = download(tensor);
    device_.observer()(name, std::span(tensor->ne, GGML_MAX_DIMS), values);
  }
  for (const ggml_tensor* sum : watched_)
    if (const std::vector<float> values = read(sum); !std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
      return Error{ErrorCode::rejected, "values that are not finite (NaN or infinity) appeared in " + scope_, "",
                   "damaged weights or an unsuitable device: download the model again, or try '--device CPU'"};
  return {};
}

}  // namespace tritium
