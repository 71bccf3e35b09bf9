// Tensors that outlive a graph (weights, the hidden state, tables), allocated together in one buffer of a device.
#pragma once

#include "device/device.h"

#include <ggml-cpp.h>
#include <ggml.h>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>

namespace tritium {

// A piece of a device's memory that tensors can be placed in again and again.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;  // none
  // Error does_not_fit names `what` and the bytes.
  static Result<DeviceBuffer> create(Device& device, std::uint64_t bytes, const std::string& what);

  [[nodiscard]] ggml_backend_buffer_t get() const { return buffer_.get(); }
  [[nodiscard]] std::uint64_t bytes() const { return ggml_backend_buffer_get_size(buffer_.get()); }
  [[nodiscard]] bool is_host() const { return ggml_backend_buffer_is_host(buffer_.get()); }
  void fill(std::uint8_t value) { ggml_backend_buffer_clear(buffer_.get(), value); }

 private:
  explicit DeviceBuffer(ggml_backend_buffer_t buffer) : buffer_(buffer) {}
  ggml_backend_buffer_ptr buffer_;
};

class TensorPool {
 public:
  explicit TensorPool(std::size_t max_tensors);

  // Declares a tensor; `ne` innermost first. Valid for use in graphs once allocate() succeeded.
  ggml_tensor* add(const std::string& name, ggml_type type, std::initializer_list<std::int64_t> ne);
  ggml_tensor* add(const std::string& name, ggml_type type, std::span<const std::int64_t> ne);

  enum class Contents { zeroed, undefined };
  // Error does_not_fit names the bytes. On a dry device the tensors stay without memory.
  Result<void> allocate(Device& device, const std::string& what, Contents contents = Contents::zeroed);

  // Instead of allocate(): puts the tensors into memory that exists and outlives their use. Error failure if it is too small. Tensors
  // named in `places` begin at an address that agrees with that number modulo kPage: so a file is read straight into them.
  using Places = std::map<const ggml_tensor*, std::uint64_t>;
  static constexpr std::uint64_t kPage = 4096;
  Result<void> place(const DeviceBuffer& buffer, const Places& places = {});
  // What place() takes on a device at the most, padding included.
  [[nodiscard]] std::uint64_t placed_bytes(const Device& device) const;

  // Lets a tensor use memory that lies elsewhere, on the host: a mapped file. To be called before allocate(), which leaves such tensors
  // alone. `owner` is kept as long as the pool; [base, base + bytes) is all of its memory and begins at a page.
  void bind(ggml_tensor* tensor, const std::shared_ptr<const void>& owner, const void* base, std::size_t bytes, const void* at);

  [[nodiscard]] std::uint64_t bytes() const;  // sum over the tensors, bound ones too; known before allocate()

 private:
  struct Foreign {
    std::shared_ptr<const void> owner;
    ggml_backend_buffer_ptr buffer;  // freed before the owner
  };
  ggml_context_ptr context_;
  std::vector<Foreign> foreign_;
  ggml_backend_buffer_ptr buffer_;  // freed before the context
};

// Uploads exactly the tensor's elements (F32 tensors; I32 tensors). On a dry device nothing happens.
void upload(ggml_tensor* tensor, std::span<const float> values);
void upload(ggml_tensor* tensor, std::span<const std::int32_t> values);
// The same values on another device. On a dry device nothing happens.
void copy(const ggml_tensor* from, ggml_tensor* to);
// Downloads an F32 tensor. On a dry device zeros.
std::vector<float> download(const ggml_tensor* tensor);

}  // namespace tritium
