#include "device/device.h"

#include "base/system.h"
#include "base/try.h"
#include "device/backends.h"
#include "device/scope_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>

namespace tritium {
namespace {

// Upper bound of the nodes of one graph; sizes the scheduler's tables.
constexpr std::size_t kMaxGraphNodes = 16384;

constexpr std::string_view kSoftwareVulkan = "llvmpipe";  // begins the description of Mesa's software device

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

// Libraries below may throw.
template <class Work>
Result<void> guarded(const DeviceInfo& info, const char* doing, Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::does_not_fit, fmt::format("out of memory while {} on device '{}'", doing, info.name), "", "see 'tritium plan'"};
  } catch (const std::exception& e) {
    return Error{ErrorCode::device, fmt::format("device '{}' failed while {}: {}", info.name, doing, e.what()), "", ""};
  }
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

std::string describe(const ggml_tensor* tensor) {
  return fmt::format("{} [{}]", ggml_type_name(tensor->type), fmt::join(tensor->ne, ", "));
}

std::string describe_operation(const ggml_tensor* node) {
  std::string out = fmt::format("{} {}", ggml_op_desc(node), describe(node));
  for (int i = 0; i < GGML_MAX_SRC && node->src[i] != nullptr; ++i)
    out += fmt::format("{}{}", i == 0 ? " of " : ", ", describe(node->src[i]));
  return out;
}

// Nodes that compute nothing.
bool is_view(const ggml_tensor* node) {
  return node->op == GGML_OP_NONE || node->op == GGML_OP_RESHAPE || node->op == GGML_OP_VIEW || node->op == GGML_OP_PERMUTE ||
         node->op == GGML_OP_TRANSPOSE;
}

// Whether a node writes into memory that it does not choose.
bool has_memory(const ggml_tensor* node) { return node->data != nullptr || (node->view_src != nullptr && node->view_src->data != nullptr); }

struct RunningGraphs {
  std::mutex mutex;
  std::list<std::string> graphs;
};

RunningGraphs& running() {
  static RunningGraphs all;
  return all;
}

// Puts a graph on the list while it exists.
class RunningGraph {
 public:
  explicit RunningGraph(std::string what) {
    const std::lock_guard lock(running().mutex);
    entry_ = running().graphs.insert(running().graphs.end(), std::move(what));
  }
  ~RunningGraph() {
    const std::lock_guard lock(running().mutex);
    running().graphs.erase(entry_);
  }
  RunningGraph(const RunningGraph&) = delete;
  RunningGraph& operator=(const RunningGraph&) = delete;

 private:
  std::list<std::string>::iterator entry_;
};

}  // namespace

bool fast_kernels_wanted() {
  const char* kernels = std::getenv("TRITIUM_KERNELS");
  return kernels == nullptr || std::strcmp(kernels, "plain") != 0;
}

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> out;
  for (ggml_backend_dev_t device : backends::all()) out.push_back(describe(device));
  return out;
}

bool only_cpu_devices() {
  const std::vector<ggml_backend_dev_t> all = backends::all();
  return std::all_of(all.begin(), all.end(), [](ggml_backend_dev_t device) {
    const auto type = ggml_backend_dev_type(device);
    return type == GGML_BACKEND_DEVICE_TYPE_CPU || type == GGML_BACKEND_DEVICE_TYPE_ACCEL;
  });
}

std::string backend_library_version() { return ggml_version(); }

std::vector<std::string> running_graphs() {
  const std::lock_guard lock(running().mutex);
  return {running().graphs.begin(), running().graphs.end()};
}

std::vector<std::string> lost_devices() { return rpc::lost_connections(); }

Result<std::unique_ptr<Device>> Device::open(const std::string& name, int threads) {
  ggml_backend_dev_t chosen = nullptr;
  TRITIUM_TRY_ASSIGN(ggml_backend_dev_t cpu, backends::find("CPU"));
  std::optional<rpc::Endpoint> endpoint;
  if (rpc::is_remote(name)) {
    TRITIUM_TRY_ASSIGN(endpoint, rpc::parse_endpoint(name));
    TRITIUM_TRY_ASSIGN(chosen, rpc::connect(*endpoint));
  } else {
    TRITIUM_TRY_ASSIGN(chosen, backends::find(name));
  }

  std::unique_ptr<Device> device(new Device);
  device->info_.name = endpoint ? endpoint->name() : ggml_backend_dev_name(chosen);
  device->in_use_ = std::make_unique<DeviceInUse>(device->info_.name);
  device->is_cpu_ = chosen == cpu;
  device->threads_ = threads > 0 ? threads : usable_cpus();
  device->fast_kernels_ = device->is_cpu_ && fast_kernels_wanted();
  TRITIUM_TRY(guarded(device->info_, "starting", [&]() -> Result<void> {
    for (ggml_backend_dev_t each : {chosen, cpu}) {
      if (each == cpu && device->is_cpu_ && !device->backends_.empty()) continue;
      ggml_backend_t backend = ggml_backend_dev_init(each, nullptr);
      if (backend == nullptr) return device_error(fmt::format("device '{}' could not be initialised", ggml_backend_dev_name(each)));
      device->backends_.push_back(backend);
    }
    if (endpoint) device->watch_ = std::make_unique<rpc::Watch>(*endpoint);
    device->info_ = describe(chosen);
    if (endpoint) {
      device->info_.name = endpoint->name();
      device->info_.kind = "remote";
    }
    device->scheduler_ = device->make_scheduler();
    if (device->scheduler_ == nullptr) return device_error("the scheduler could not be created");
    device->node_by_node_ = device->info_.description.starts_with(kSoftwareVulkan);
    if (device->node_by_node_) device->compute_node_by_node();
    return {};
  }));
  device->set_threads_ = backends::function<ggml_backend_set_n_threads_t>(cpu, "ggml_backend_set_n_threads");
  device->set_abort_callback_ = backends::function<ggml_backend_set_abort_callback_t>(cpu, "ggml_backend_set_abort_callback");
  return device;
}

ggml_backend_sched_t Device::make_scheduler() {
  return ggml_backend_sched_new(backends_.data(), nullptr, static_cast<int>(backends_.size()), kMaxGraphNodes, /*parallel=*/false,
                                /*op_offload=*/false);
}

void Device::release_working_memory() {
  const auto guard = lock();
  if (working_bytes() == 0) return;
  ggml_backend_sched_free(scheduler_);
  scheduler_ = make_scheduler();
  if (node_by_node_ || profile_ != nullptr) compute_node_by_node();
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

bool Device::supports(const ggml_tensor* node) const { return ggml_backend_dev_supports_op(ggml_backend_get_device(backend()), node); }

std::vector<UnsupportedOp> Device::fallbacks() const {
  std::vector<UnsupportedOp> out;
  for (const auto& [key, count] : fallbacks_) out.push_back({key.first, key.second, count});
  return out;
}

// Left to itself the scheduler keeps inputs, and what depends on inputs alone, on the CPU.
Result<void> Device::place(ggml_cgraph* graph, const std::string& scope, std::span<ggml_tensor* const> inputs) {
  if (!dry_)
    for (ggml_tensor* input : inputs) ggml_backend_sched_set_tensor_backend(scheduler_, input, backend());
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    ggml_tensor* node = ggml_graph_node(graph, i);
    if (is_view(node)) continue;
    const bool supported = supports(node);
    if (!supported) {
      ++fallbacks_[{without_numbers(scope), describe_operation(node)}];
      if (has_memory(node))
        return device_error(
            fmt::format("device '{}' cannot compute {} in its own memory ({})", info_.name, describe_operation(node), scope),
            "choose another device");
    }
    if (!dry_) ggml_backend_sched_set_tensor_backend(scheduler_, node, supported ? backends_.front() : backends_.back());
  }
  return {};
}

Result<void> Device::allocate(ggml_cgraph* graph, const std::string& scope, std::span<ggml_tensor* const> inputs) {
  if (static_cast<std::size_t>(ggml_graph_n_nodes(graph)) > kMaxGraphNodes)
    return device_error(fmt::format("a graph of {} nodes is above the limit of {}", ggml_graph_n_nodes(graph), kMaxGraphNodes));
  scope_ = scope;
  if (dry_) return is_cpu_ ? Result<void>{} : place(graph, scope, inputs);
  const RunningGraph listed(fmt::format("{}: {}", info_.name, scope));
  return guarded(info_, "allocating", [&]() -> Result<void> {
    ggml_backend_sched_reset(scheduler_);
    if (!is_cpu_) TRITIUM_TRY(place(graph, scope, inputs));
    if (!ggml_backend_sched_alloc_graph(scheduler_, graph))
      return Error{ErrorCode::does_not_fit, fmt::format("device '{}' has not enough memory for the working tensors", info_.name), "",
                   "choose a smaller size or fewer frames; see 'tritium plan'"};
    return {};
  });
}

// Mesa's software driver, at least up to 22.3, corrupts memory when a shader is created while another one runs, which ggml does at the
// first use of each. Waiting after every node costs such a device nothing.
void Device::compute_node_by_node() {
  ggml_backend_sched_set_eval_callback(
      scheduler_, [](ggml_tensor* node, bool ask, void* device) { return static_cast<Device*>(device)->after_node(node, ask); }, this);
}

// Asked before each node, told after it. False afterwards stops the graph.
bool Device::after_node(ggml_tensor* node, bool ask) {
  if (ask) {
    node_start_ = monotonic_seconds();
    return true;
  }
  if (profile_ != nullptr && !is_view(node)) profile_->add(scope_, node, node_start_, monotonic_seconds() - node_start_);
  return cancel_ == nullptr || !cancel_->cancelled();
}

void Device::set_profile(Profile* profile) {
  const auto guard = lock();
  profile_ = profile;
  if (profile != nullptr)
    compute_node_by_node();
  else if (!node_by_node_)
    ggml_backend_sched_set_eval_callback(scheduler_, nullptr, nullptr);
}

Result<void> Device::run(ggml_cgraph* graph, double custom_operations, const CancelToken* cancel) {
  if (cancel != nullptr) TRITIUM_TRY(cancel->check("computation"));
  if (dry_) return {};
  if (set_abort_callback_ != nullptr) {
    const auto is_cancelled = [](void* token) { return token != nullptr && static_cast<const CancelToken*>(token)->cancelled(); };
    set_abort_callback_(backends_.back(), is_cancelled, const_cast<CancelToken*>(cancel));
  }
  if (set_threads_ != nullptr) {
    const double useful = is_cpu_ ? (operations(graph) + custom_operations) / kOperationsPerThread : threads_;
    set_threads_(backends_.back(), static_cast<int>(std::clamp(useful, 1.0, static_cast<double>(threads_))));
  }
  cancel_ = cancel;
  const Result<void> done = compute(graph);
  cancel_ = nullptr;
  if (cancel != nullptr) TRITIUM_TRY(cancel->check("computation"));
  return done;
}

Result<void> Device::compute(ggml_cgraph* graph) {
  const RunningGraph listed(fmt::format("{}: {}", info_.name, scope_));
  return guarded(info_, "computing", [&]() -> Result<void> {
    const ggml_status status = ggml_backend_sched_graph_compute(scheduler_, graph);
    if (status == GGML_STATUS_ALLOC_FAILED)
      return Error{ErrorCode::does_not_fit, fmt::format("device '{}' ran out of memory while computing", info_.name), "", ""};
    if (status != GGML_STATUS_SUCCESS)
      return device_error(fmt::format("device '{}' failed while computing (status {})", info_.name, static_cast<int>(status)));
    return {};
  });
}

}  // namespace tritium
