#include "pipeline/device_set.h"

#include "base/try.h"

namespace tritium {

Result<Device*> DeviceSet::get(const std::string& name) {
  if (const auto found = devices_.find(name); found != devices_.end()) return found->second.get();
  TRITIUM_TRY_ASSIGN(auto device, Device::open(name.substr(0, name.find('#')), threads_));
  if (observer_) device->set_observer(observer_);
  return devices_.emplace(name, std::move(device)).first->second.get();
}

void DeviceSet::release_working_memory() {
  for (auto& [name, device] : devices_) device->release_working_memory();
}

}  // namespace tritium
