// Compute devices as ggml's registry offers them. Backends are loaded at run time, so the same binary serves CPU, Vulkan, CUDA, ...
#pragma once

#include "base/cancel.h"
#include "device/abort_report.h"
#include "device/profile.h"
#include "device/rpc.h"

#include <ggml-backend.h>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tritium {

struct DeviceInfo {
  std::string name;                                 // as accepted by Device::open: "CPU", "Vulkan0", "CUDA0", "rpc://HOST:PORT", ...
  std::string description;                          // the hardware's own name
  std::string kind;                                 // "cpu", "gpu", "integrated gpu", "accelerator", "remote"
  std::uint64_t memory_total = 0, memory_free = 0;  // bytes; 0 when the backend does not know
};

// All devices of all installed backends, the CPU first; not those behind a network connection. Loads every backend, which starts
// graphics drivers.
std::vector<DeviceInfo> list_devices();

// Whether there is nothing but the CPU and what works for it (BLAS, AMX). Loads the backends, but asks no device for its memory, which
// would take some of it.
bool only_cpu_devices();

// Version of the ggml library in use, e.g. "0.27.0".
std::string backend_library_version();

// Whether CPU devices use the hand-written kernels: unless the environment variable TRITIUM_KERNELS is "plain".
bool fast_kernels_wanted();

// An operation that a device does not have; the CPU computes it instead, and the values travel.
struct UnsupportedOp {
  std::string scope;       // of the graphs, numbers as '#': "dit.step#.block#"
  std::string operation;   // with types and shapes: "IM2COL f32 [9, 33, 1, 1] of f32 [3, 3, 8, 1], f32 [33, 3, 1, 1]"
  std::int64_t count = 0;  // how often it was met
};

// The graphs that threads of this process compute right now, as "DEVICE: SCOPE". For the report of a process that is about to end.
std::vector<std::string> running_graphs();
// Devices in use whose server closed the connection or went away, for the same purpose. ggml ends the process when it notices that.
std::vector<std::string> lost_devices();

// Receives every named intermediate after the graph that computes it has run. `shape` is innermost first (ggml order).
using TensorObserver = std::function<void(const std::string& name, std::span<const std::int64_t> shape, std::span<const float> values)>;

// One device with its scheduler and working memory. One graph runs at a time: whoever uses it from several threads holds lock() meanwhile,
// as Graph does. Several may exist at once, also for the same hardware.
class Device {
 public:
  // `name` as in list_devices() or "rpc://HOST:PORT" (device/rpc.h), case-insensitive; empty = the CPU. `threads` (CPU work): 0 = all
  // usable processors. Errors (code device) list what there is.
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

  // Whether the device computes this node itself: where an operation can be written in more than one way.
  [[nodiscard]] bool supports(const ggml_tensor* node) const;

  // A dry device computes nothing: pools take no memory, uploads are dropped, and whatever is read is zero. Graphs are built and placed,
  // so that fallbacks() is known without weights. To be set before anything is loaded; weights then have MatrixForm::blocks.
  [[nodiscard]] bool dry() const { return dry_; }
  void set_dry(bool on) { dry_ = on; }

  // The operations that were left to the CPU since the device was opened; none if the device is the CPU.
  [[nodiscard]] std::vector<UnsupportedOp> fallbacks() const;

  // Nobody else uses the device while this lives. May be taken again by the same thread.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> lock() const { return std::unique_lock(mutex_); }

  void set_observer(TensorObserver observer) { observer_ = std::move(observer); }
  [[nodiscard]] const TensorObserver& observer() const { return observer_; }

  // Times every node into `profile`, which outlives its use; null: no more. Waiting for each costs some time itself.
  void set_profile(Profile* profile);

  // Gives the scratch memory back; the next graph allocates it anew. Results of earlier graphs are gone.
  void release_working_memory();

  // Allocates the graph's tensors, on this device but for operations it does not have; results stay valid until the next call.
  // `scope` names the graph, `inputs` are its tensors that are to be filled before run().
  Result<void> allocate(ggml_cgraph* graph, const std::string& scope, std::span<ggml_tensor* const> inputs);
  // Runs an allocated graph, `custom_operations` of whose work lie in custom nodes, on fewer threads than threads() if it is small: results
  // do not depend on their number. A cancelled token stops it within one node and gives error `interrupted`.
  Result<void> run(ggml_cgraph* graph, double custom_operations, const CancelToken* cancel);

 private:
  Device() = default;
  [[nodiscard]] ggml_backend_sched_t make_scheduler();
  Result<void> place(ggml_cgraph* graph, const std::string& scope, std::span<ggml_tensor* const> inputs);
  Result<void> compute(ggml_cgraph* graph);
  void compute_node_by_node();
  bool after_node(ggml_tensor* node, bool ask);

  DeviceInfo info_;
  mutable std::recursive_mutex mutex_;
  std::unique_ptr<DeviceInUse> in_use_;
  bool is_cpu_ = true;
  bool fast_kernels_ = false;
  bool dry_ = false;
  int threads_ = 1;
  std::vector<ggml_backend_t> backends_;  // the device, then the CPU (once if the device is the CPU)
  ggml_backend_sched_t scheduler_ = nullptr;
  void (*set_threads_)(ggml_backend_t, int) = nullptr;
  void (*set_abort_callback_)(ggml_backend_t, ggml_abort_callback, void*) = nullptr;
  TensorObserver observer_;
  bool node_by_node_ = false;
  Profile* profile_ = nullptr;
  double node_start_ = 0;
  const CancelToken* cancel_ = nullptr;                                    // of the running graph
  std::string scope_;                                                      // of the allocated graph
  std::map<std::pair<std::string, std::string>, std::int64_t> fallbacks_;  // scope and operation
  std::unique_ptr<rpc::Watch> watch_;                                      // of a remote device
};

}  // namespace tritium
