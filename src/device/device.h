// Compute devices as ggml's registry offers them. Backends are loaded at run time, so the same binary serves CPU, Vulkan, CUDA, ...
#pragma once

#include "base/cancel.h"

#include <ggml-backend.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tritium {

struct DeviceInfo {
  std::string name;                                 // as accepted by Device::open: "CPU", "Vulkan0", "CUDA0", ...
  std::string description;                          // the hardware's own name
  std::string kind;                                 // "cpu", "gpu", "integrated gpu", "accelerator"
  std::uint64_t memory_total = 0, memory_free = 0;  // bytes; 0 when the backend does not know
};

// All devices of all installed backends, in the registry's order. Loads the backends on first use.
std::vector<DeviceInfo> list_devices();

// Version of the ggml library in use, e.g. "0.27.0".
std::string backend_library_version();

// Whether CPU devices use the hand-written kernels: unless the environment variable TRITIUM_KERNELS is "plain".
bool fast_kernels_wanted();

// Receives every named intermediate after the graph that computes it has run. `shape` is innermost first (ggml order).
using TensorObserver = std::function<void(const std::string& name, std::span<const std::int64_t> shape, std::span<const float> values)>;

// One device with its scheduler and working memory. Not thread safe: one graph runs at a time.
class Device {
 public:
  // `name` as in list_devices(), case-insensitive; empty = the CPU. `threads` (CPU work): 0 = all usable processors.
  // Errors (code device) list what there is.
  static Result<std::unique_ptr<Device>> open(const std::string& name, int threads = 0);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const DeviceInfo& info() const { return info_; }
  [[nodiscard]] bool is_cpu() const { return is_cpu_; }
  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] ggml_backend_t backend() const { return backends_.front(); }
  [[nodiscard]] std::uint64_t working_bytes() const;  // current size of the shared scratch memory

  // Whether operations may use the hand-written CPU kernels; off = plain ggml nodes only. Default: on for the CPU device if
  // fast_kernels_wanted().
  [[nodiscard]] bool fast_kernels() const { return fast_kernels_; }
  void set_fast_kernels(bool on) { fast_kernels_ = on && is_cpu_; }

  void set_observer(TensorObserver observer) { observer_ = std::move(observer); }
  [[nodiscard]] const TensorObserver& observer() const { return observer_; }

  // Gives the scratch memory back; the next graph allocates it anew. Results of earlier graphs are gone.
  void release_working_memory();

  // Allocates the graph's tensors; results stay valid until the next call.
  Result<void> allocate(ggml_cgraph* graph);
  // Runs an allocated graph, `custom_operations` of whose work lie in custom nodes, on fewer threads than threads() if it is small: results
  // do not depend on their number. A cancelled token stops it within one node and gives error `interrupted`.
  Result<void> run(ggml_cgraph* graph, double custom_operations, const CancelToken* cancel);

 private:
  Device() = default;
  [[nodiscard]] ggml_backend_sched_t make_scheduler();
  DeviceInfo info_;
  bool is_cpu_ = true;
  bool fast_kernels_ = false;
  int threads_ = 1;
  std::vector<ggml_backend_t> backends_;  // the device, then the CPU (once if the device is the CPU)
  ggml_backend_sched_t scheduler_ = nullptr;
  void (*set_threads_)(ggml_backend_t, int) = nullptr;
  void (*set_abort_callback_)(ggml_backend_t, ggml_abort_callback, void*) = nullptr;
  TensorObserver observer_;
};

}  // namespace tritium
