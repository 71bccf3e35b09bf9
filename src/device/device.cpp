#include "device/device.h"

#include "base/system.h"
#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <strings.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace tritium {
namespace {

// Upper bound of the nodes of one graph; sizes the scheduler's tables.
constexpr std::size_t kMaxGraphNodes = 16384;

void load_backends() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Only warnings and errors of the backends are of interest to users.
    ggml_log_set(
        [](ggml_log_level level, const char* text, void*) {
          if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
    ggml_backend_load_all();
  });
}

std::string kind_name(enum ggml_backend_dev_type type) {
  switch (type) {
    case GGML_BACKEND_DEVICE_TYPE_CPU:
      return "cpu";
    case GGML_BACKEND_DEVICE_TYPE_GPU:
      return "gpu";
    case GGML_BACKEND_DEVICE_TYPE_IGPU:
      return "integrated gpu";
    default:
      return "accelerator";
  }
}

DeviceInfo describe(ggml_backend_dev_t device) {
  DeviceInfo info{ggml_backend_dev_name(device), ggml_backend_dev_description(device), kind_name(ggml_backend_dev_type(device)), 0, 0};
  std::size_t free = 0, total = 0;
  ggml_backend_dev_memory(device, &free, &total);
  info.memory_free = free;
  info.memory_total = total;
  if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) {
    const HostMemory host = host_memory();  // the backend does not know about cgroup limits
    info.memory_total = host.total;
    info.memory_free = host.available;
  }
  return info;
}

template <class Function>
Function backend_function(ggml_backend_dev_t device, const char* name) {
  return reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
}

// Work of a graph, in operations: products by their size, everything else by the values it writes.
double operations(ggml_cgraph* graph) {
  constexpr double kPerValue = 8;
  double sum = 0;
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    const ggml_tensor* node = ggml_graph_node(graph, i);
    sum += static_cast<double>(ggml_nelements(node)) *
           (node->op == GGML_OP_MUL_MAT ? 2.0 * static_cast<double>(node->src[0]->ne[0]) : kPerValue);
  }
  return sum;
}

// Threads meet after every node of a graph. Below this much work for each of them, waiting costs more than it saves, above all on a
// machine that is busy with other things.
constexpr double kOperationsPerThread = 5e8;

Error device_error(std::string message, std::string hint = {}) { return Error{ErrorCode::device, std::move(message), "", std::move(hint)}; }

}  // namespace

bool fast_kernels_wanted() {
  const char* kernels = std::getenv("TRITIUM_KERNELS");
  return kernels == nullptr || std::strcmp(kernels, "plain") != 0;
}

std::vector<DeviceInfo> list_devices() {
  load_backends();
  std::vector<DeviceInfo> out;
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) out.push_back(describe(ggml_backend_dev_get(i)));
  return out;
}

std::string backend_library_version() { return ggml_version(); }

Result<std::unique_ptr<Device>> Device::open(const std::string& name, int threads) {
  load_backends();
  ggml_backend_dev_t chosen = nullptr;
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    names.emplace_back(ggml_backend_dev_name(device));
    if (strcasecmp(ggml_backend_dev_name(device), name.c_str()) == 0) chosen = device;
  }
  if (cpu == nullptr) return device_error("no CPU backend of ggml was found", "install the ggml package with its CPU backend (libggml0)");
  if (name.empty()) chosen = cpu;
  if (chosen == nullptr) {
    return Error{ErrorCode::device, fmt::format("there is no device '{}'; available: {}", name, fmt::join(names, ", ")), "device",
                 "see 'tritium devices'"};
  }

  std::unique_ptr<Device> device(new Device);
  device->info_ = describe(chosen);
  device->is_cpu_ = chosen == cpu;
  device->threads_ = threads > 0 ? threads : usable_cpus();
  device->fast_kernels_ = device->is_cpu_ && fast_kernels_wanted();
  for (ggml_backend_dev_t each : {chosen, cpu}) {
    if (each == cpu && device->is_cpu_ && !device->backends_.empty()) continue;
    ggml_backend_t backend = ggml_backend_dev_init(each, nullptr);
    if (backend == nullptr) return device_error(fmt::format("device '{}' could not be initialised", ggml_backend_dev_name(each)));
    device->backends_.push_back(backend);
  }
  device->set_threads_ = backend_function<ggml_backend_set_n_threads_t>(cpu, "ggml_backend_set_n_threads");
  device->set_abort_callback_ = backend_function<ggml_backend_set_abort_callback_t>(cpu, "ggml_backend_set_abort_callback");
  device->scheduler_ = device->make_scheduler();
  if (device->scheduler_ == nullptr) return device_error("the scheduler could not be created");
  return device;
}

ggml_backend_sched_t Device::make_scheduler() {
  return ggml_backend_sched_new(backends_.data(), nullptr, static_cast<int>(backends_.size()), kMaxGraphNodes, /*parallel=*/false,
                                /*op_offload=*/false);
}

void Device::release_working_memory() {
  if (working_bytes() == 0) return;
  ggml_backend_sched_free(scheduler_);
  scheduler_ = make_scheduler();
}

Device::~Device() {
  if (scheduler_ != nullptr) ggml_backend_sched_free(scheduler_);
  for (ggml_backend_t backend : backends_) ggml_backend_free(backend);
}

std::uint64_t Device::working_bytes() const {
  std::uint64_t sum = 0;
  for (ggml_backend_t backend : backends_) sum += ggml_backend_sched_get_buffer_size(scheduler_, backend);
  return sum;
}

Result<void> Device::allocate(ggml_cgraph* graph) {
  if (static_cast<std::size_t>(ggml_graph_n_nodes(graph)) > kMaxGraphNodes)
    return device_error(fmt::format("a graph of {} nodes is above the limit of {}", ggml_graph_n_nodes(graph), kMaxGraphNodes));
  ggml_backend_sched_reset(scheduler_);
  if (!ggml_backend_sched_alloc_graph(scheduler_, graph))
    return Error{ErrorCode::does_not_fit, fmt::format("device '{}' has not enough memory for the working tensors", info_.name), "",
                 "choose a smaller size or fewer frames; see 'tritium plan'"};
  return {};
}

Result<void> Device::run(ggml_cgraph* graph, double custom_operations, const CancelToken* cancel) {
  if (cancel != nullptr) TRITIUM_TRY(cancel->check("computation"));
  if (set_abort_callback_ != nullptr) {
    const auto is_cancelled = [](void* token) { return token != nullptr && static_cast<const CancelToken*>(token)->cancelled(); };
    set_abort_callback_(backends_.back(), is_cancelled, const_cast<CancelToken*>(cancel));
  }
  if (set_threads_ != nullptr) {
    const double useful = is_cpu_ ? (operations(graph) + custom_operations) / kOperationsPerThread : threads_;
    set_threads_(backends_.back(), static_cast<int>(std::clamp(useful, 1.0, static_cast<double>(threads_))));
  }
  const ggml_status status = ggml_backend_sched_graph_compute(scheduler_, graph);
  if (cancel != nullptr) TRITIUM_TRY(cancel->check("computation"));
  if (status == GGML_STATUS_ALLOC_FAILED)
    return Error{ErrorCode::does_not_fit, fmt::format("device '{}' ran out of memory while computing", info_.name), "", ""};
  if (status != GGML_STATUS_SUCCESS)
    return device_error(fmt::format("device '{}' failed while computing (status {})", info_.name, static_cast<int>(status)));
  return {};
}

}  // namespace tritium
