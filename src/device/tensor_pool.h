// Tensors that outlive a graph (weights, the hidden state, tables), allocated together in one buffer of a device.
#pragma once

#include "device/device.h"

#include <ggml-cpp.h>
#include <ggml.h>
#include <initializer_list>
#include <span>

namespace tritium {

class TensorPool {
 public:
  explicit TensorPool(std::size_t max_tensors);

  // Declares a tensor; `ne` innermost first. Valid for use in graphs once allocate() succeeded.
  ggml_tensor* add(const std::string& name, ggml_type type, std::initializer_list<std::int64_t> ne);
  ggml_tensor* add(const std::string& name, ggml_type type, std::span<const std::int64_t> ne);

  // Error does_not_fit names the bytes. The buffer starts zeroed.
  Result<void> allocate(Device& device, const std::string& what);

  [[nodiscard]] std::uint64_t bytes() const;  // sum over the tensors; known before allocate()

 private:
  ggml_context_ptr context_;
  ggml_backend_buffer_ptr buffer_;  // freed before the context
};

// Uploads exactly the tensor's elements (F32 tensors).
void upload(ggml_tensor* tensor, std::span<const float> values);
// Downloads an F32 tensor.
std::vector<float> download(const ggml_tensor* tensor);

}  // namespace tritium
