#include "pipeline/device_set.h"

#include "base/try.h"

#include <algorithm>
#include <cctype>

namespace tritium {

Result<Device*> DeviceSet::get(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::string key = name;
  std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (const auto found = devices_.find(key); found != devices_.end()) return found->second.get();
  TRITIUM_TRY_ASSIGN(auto device, Device::open(name.substr(0, name.find('#')), threads_));
  if (observer_) device->set_observer(observer_);
  if (profile_ != nullptr) device->set_profile(profile_);
  return devices_.emplace(std::move(key), std::move(device)).first->second.get();
}

void DeviceSet::set_profile(Profile* profile) {
  const std::lock_guard lock(mutex_);
  profile_ = profile;
  for (const auto& [name, device] : devices_) device->set_profile(profile);
}

void DeviceSet::release_working_memory() {
  const std::lock_guard lock(mutex_);
  for (auto& [name, device] : devices_) device->release_working_memory();
}

}  // namespace tritium
