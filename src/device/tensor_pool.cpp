#include "device/tensor_pool.h"

#include "base/system.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

std::size_t padded(std::size_t bytes, std::size_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

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

Result<DeviceBuffer> DeviceBuffer::create(Device& device, std::uint64_t bytes, const std::string& what) {
  ggml_backend_buffer_t buffer = ggml_backend_alloc_buffer(device.backend(), std::max<std::uint64_t>(bytes, 1));
  if (buffer == nullptr)
    return Error{ErrorCode::does_not_fit,
                 fmt::format("{} needs {} on device '{}', which could not be allocated ({} free)", what, format_bytes(bytes),
                             device.info().name, format_bytes(device.info().memory_free)),
                 "", "close other programs, or choose another device or a smaller memory budget"};
  return DeviceBuffer(buffer);
}

Result<void> TensorPool::place(const DeviceBuffer& buffer, const Places& places) {
  const std::size_t alignment = ggml_backend_buffer_get_alignment(buffer.get());
  auto* base = static_cast<std::uint8_t*>(ggml_backend_buffer_get_base(buffer.get()));
  std::size_t at = 0;
  for (ggml_tensor* t = ggml_get_first_tensor(context_.get()); t != nullptr; t = ggml_get_next_tensor(context_.get(), t)) {
    if (const auto wanted = places.find(t); wanted != places.end())
      at += (wanted->second - reinterpret_cast<std::uintptr_t>(base + at)) % kPage;
    const std::size_t bytes = ggml_backend_buffer_get_alloc_size(buffer.get(), t);
    if (at + bytes > buffer.bytes())
      return Error{ErrorCode::failure, fmt::format("'{}' does not fit into {} of memory", t->name, format_bytes(buffer.bytes())), "", ""};
    if (ggml_backend_tensor_alloc(buffer.get(), t, base + at) != GGML_STATUS_SUCCESS)
      return Error{ErrorCode::device, fmt::format("'{}' could not be placed", t->name), "", ""};
    at = padded(at + bytes, alignment);
  }
  return {};
}

std::uint64_t TensorPool::placed_bytes(const Device& device) const {
  ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(device.backend());
  std::uint64_t sum = 0;
  for (ggml_tensor* t = ggml_get_first_tensor(context_.get()); t != nullptr; t = ggml_get_next_tensor(context_.get(), t))
    sum += padded(ggml_backend_buft_get_alloc_size(type, t), ggml_backend_buft_get_alignment(type)) + (ggml_nbytes(t) >= kPage ? kPage : 0);
  return sum;
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

void copy(const ggml_tensor* from, ggml_tensor* to) {
  if (from->buffer != nullptr && to->buffer != nullptr) ggml_backend_tensor_copy(const_cast<ggml_tensor*>(from), to);
}

std::vector<float> download(const ggml_tensor* tensor) {
  std::vector<float> out(static_cast<std::size_t>(ggml_nelements(tensor)));
  GGML_ASSERT(tensor->type == GGML_TYPE_F32 && ggml_is_contiguous(tensor));
  if (tensor->buffer != nullptr) ggml_backend_tensor_get(tensor, out.data(), 0, out.size() * sizeof(float));
  return out;
}

}  // namespace tritium
