#include "pipeline/machine.h"

#include "base/system.h"
#include "base/try.h"
#include "doctor/speeds.h"
#include "pipeline/memory_table.h"

#include <fmt/format.h>
#include <strings.h>
#include <algorithm>
#include <array>

namespace tritium {
namespace {

constexpr std::uint64_t kUnknownMemory = std::uint64_t{1} << 60;
constexpr std::array<const char*, 5> kPlanStages = {"inputs", "text", "denoise", "video", "audio"};

bool same_name(const std::string& a, const std::string& b) { return strcasecmp(a.c_str(), b.c_str()) == 0; }

struct Facts {
  DeviceInfo info;
  bool now = true;  // the free memory; otherwise that before anything was loaded
};

// A device that the registry does not list, and the CPU, is opened instead: listing starts graphics drivers.
Result<Facts> facts_of(const std::string& name, DeviceSet& devices) {
  const std::string hardware = name.substr(0, name.find('#'));
  TRITIUM_TRY_ASSIGN(Device * device, devices.get(name));
  if (device->is_cpu()) return Facts{device->info(), true};
  for (const DeviceInfo& info : list_devices())
    if (same_name(info.name, hardware)) return Facts{info, true};
  return Facts{device->info(), false};
}

// Graphics cards where there are any, and the CPU.
std::vector<std::string> automatic_devices() {
  const std::vector<DeviceInfo> listed = list_devices();
  std::vector<std::string> out;
  for (const DeviceInfo& info : listed)
    if (info.kind == "gpu") out.push_back(info.name);
  for (const DeviceInfo& info : listed)
    if (info.kind == "cpu") out.push_back(info.name);
  return out;
}

// What 'tritium doctor' measured on this machine; what it could not stays assumed.
void use_speeds(const MeasuredSpeeds& measured, MachineDevice& device, Machine& machine) {
  if (const double narrow = measured.of(ProductKind::bf16).operations; narrow > 0) device.flops = narrow;
  device.measured = measured;
  if (const double copies = device.host ? measured.host_copy : measured.upload; copies > 0) device.host_bandwidth = copies;
  if (measured.disk > 0) machine.disk_bandwidth = measured.disk;
}

Result<void> check_budgets(const MemoryBudgets& budgets, const Machine& machine) {
  for (const auto& [name, bytes] : budgets.devices) {
    const auto named = [&n = name](const MachineDevice& d) { return same_name(d.name, n); };
    if (name != "host" && std::none_of(machine.devices.begin(), machine.devices.end(), named))
      return Error{ErrorCode::usage, fmt::format("'{}' is not one of the devices in use", name), "memory-budget",
                   "name a device of --device, or 'host' for host memory"};
  }
  return {};
}

}  // namespace

std::uint64_t free_host_memory() {
  const HostMemory memory = host_memory();
  return std::min(memory.total, memory.available + own_anonymous_bytes());
}

Result<Machine> describe_machine(const MachineOptions& options, DeviceSet& devices, const Parts& parts) {
  std::vector<std::string> names = options.placement.devices();
  if (names.empty()) names = automatic_devices();
  Machine out;
  out.disk_bandwidth = kAssumedDiskBandwidth;
  std::optional<std::uint64_t> host_asked = options.budgets.of("host");
  const auto budget = [&](std::uint64_t free, std::optional<std::uint64_t> asked) {
    return options.budgets_are_free && asked ? *asked : memory_budget(free, asked);
  };
  for (std::string& name : names) {
    TRITIUM_TRY_ASSIGN(const Facts facts, facts_of(name, devices));
    const DeviceInfo& info = facts.info;
    // Written as the registry does, whatever case the user chose.
    if (same_name(info.name, name)) name = info.name;
    const bool host = info.kind == "cpu";
    const auto asked = options.budgets.of(name);
    if (host && asked) host_asked = asked;
    const std::uint64_t free = info.memory_free > 0 ? info.memory_free + (facts.now ? parts.loaded_bytes(name) : 0) : kUnknownMemory;
    const int threads = options.threads > 0 ? options.threads : usable_cpus();
    MachineDevice device{name, host ? 0 : budget(free, asked), host, host ? threads * kAssumedCoreFlops : kAssumedDeviceFlops,
                         kAssumedHostBandwidth};
    if (const auto measured = stored_speeds(info)) use_speeds(*measured, device, out);
    out.devices.push_back(std::move(device));
  }
  out.host_budget = budget(free_host_memory(), host_asked);
  TRITIUM_TRY(check_budgets(options.budgets, out));
  for (const char* stage : kPlanStages) {
    const std::vector<DeviceChoice>* choices = options.placement.of_stage(stage);
    if (choices == nullptr && options.placement.any.size() == 1) choices = &options.placement.any;  // not where another stage was sent
    if (choices == nullptr) continue;
    StageDevices fixed;
    for (const DeviceChoice& choice : *choices) {
      const auto named = [&](const MachineDevice& d) { return same_name(d.name, choice.name); };
      fixed.devices.push_back(static_cast<std::size_t>(std::find_if(out.devices.begin(), out.devices.end(), named) - out.devices.begin()));
      if (choice.share > 0) fixed.shares.push_back(choice.share);
    }
    out.fixed.emplace(stage, std::move(fixed));
  }
  return out;
}

std::vector<std::string> budget_texts(const Machine& machine) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  // The shortest text that gives the same number again; a budget of nothing cannot be named.
  const auto text = [](const std::string& name, std::uint64_t bytes) {
    return fmt::format("{}={}", name, static_cast<double>(std::max<std::uint64_t>(bytes, 1)) / kGib);
  };
  std::vector<std::string> out{text("host", machine.host_budget)};
  for (const MachineDevice& device : machine.devices)
    if (!device.host && device.budget < kUnknownMemory / 2) out.push_back(text(device.name, device.budget));
  return out;
}

MemoryAlternatives find_alternatives(const MachineOptions& options, const Machine& machine, const DitConfig& model) {
  MemoryAlternatives out;
  const bool host = std::all_of(machine.devices.begin(), machine.devices.end(), [](const MachineDevice& d) { return d.host; });
  if (model.layers == kReleasedLayers && model.hidden == kReleasedHidden)
    for (const ModelPreset& preset : model_presets())
      out.models.push_back(released_model_shape(preset, host ? MatrixForm::packed : MatrixForm::blocks));
  for (const DeviceInfo& info : list_devices()) {
    const bool used =
        std::any_of(machine.devices.begin(), machine.devices.end(), [&](const MachineDevice& d) { return d.name == info.name; });
    if (used || (info.kind != "cpu" && info.memory_free == 0)) continue;
    out.devices.push_back(
        {info.name, info.kind == "cpu" ? 0 : memory_budget(info.memory_free, options.budgets.of(info.name)), info.kind == "cpu", 1, 1});
  }
  return out;
}

}  // namespace tritium
