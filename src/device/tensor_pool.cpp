#include "device/tensor_pool.h"

#include "base/system.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {

TensorPool::TensorPool(std::size_t max_tensors)
    : context_(ggml_init({(max_tensors + 1) * ggml_tensor_overhead(), nullptr, /*no_alloc=*/true})) {}

ggml_tensor* TensorPool::add(const std::string& name, ggml_type type, std::initializer_list<std::int64_t> ne) {
  return add(name, type, std::span(ne.begin(), ne.size()));
}

ggml_tensor* TensorPool::add(const std::string& name, ggml_type type, std::span<const std::int64_t> ne) {
  ggml_tensor* tensor = ggml_new_tensor(context_.get(), type, static_cast<int>(ne.size()), ne.data());
  ggml_set_name(tensor, name.c_str());
  return tensor;
}

Result<void> TensorPool::allocate(Device& device, const std::string& what, Contents contents) {
  if (device.dry()) return {};
  bool anything = false;
  for (ggml_tensor* t = ggml_get_first_tensor(context_.get()); t != nullptr; t = ggml_get_next_tensor(context_.get(), t))
    anything |= t->data == nullptr;
  if (!anything) return {};
  buffer_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), device.backend()));
  if (!buffer_)
    return Error{ErrorCode::does_not_fit,
                 fmt::format("{} needs {} on device '{}', which could not be allocated ({} free)", what, format_bytes(bytes()),
                             device.info().name, format_bytes(device.info().memory_free)),
                 "", "close other programs, choose another device or a smaller weight format"};
  if (contents == Contents::zeroed) ggml_backend_buffer_clear(buffer_.get(), 0);
  return {};
}

void TensorPool::bind(ggml_tensor* tensor, const std::shared_ptr<const void>& owner, const void* base, std::size_t bytes, const void* at) {
  auto known = std::find_if(foreign_.begin(), foreign_.end(), [&](const Foreign& f) { return f.owner == owner; });
  if (known == foreign_.end()) {
    ggml_backend_buffer_ptr buffer(ggml_backend_cpu_buffer_from_ptr(const_cast<void*>(base), bytes));
    ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    known = foreign_.insert(foreign_.end(), Foreign{owner, std::move(buffer)});
  }
  ggml_backend_tensor_alloc(known->buffer.get(), tensor, const_cast<void*>(at));
}

std::uint64_t TensorPool::bytes() const {
  std::uint64_t sum = 0;
  for (ggml_tensor* t = ggml_get_first_tensor(context_.get()); t != nullptr; t = ggml_get_next_tensor(context_.get(), t))
    sum += ggml_nbytes(t);
  return sum;
}

void upload(ggml_tensor* tensor, std::span<const float> values) {
  GGML_ASSERT(values.size_bytes() == ggml_nbytes(tensor));  // callers size both from the same shape
  if (tensor->buffer != nullptr) ggml_backend_tensor_set(tensor, values.data(), 0, values.size_bytes());
}

void upload(ggml_tensor* tensor, std::span<const std::int32_t> values) {
  GGML_ASSERT(values.size_bytes() == ggml_nbytes(tensor));
  if (tensor->buffer != nullptr) ggml_backend_tensor_set(tensor, values.data(), 0, values.size_bytes());
}

std::vector<float> download(const ggml_tensor* tensor) {
  std::vector<float> out(static_cast<std::size_t>(ggml_nelements(tensor)));
  GGML_ASSERT(tensor->type == GGML_TYPE_F32 && ggml_is_contiguous(tensor));
  if (tensor->buffer != nullptr) ggml_backend_tensor_get(tensor, out.data(), 0, out.size() * sizeof(float));
  return out;
}

}  // namespace tritium
