// The devices of an engine, each opened when something first runs on it. Thread safe.
#pragma once

#include "device/device.h"

#include <map>
#include <mutex>

namespace tritium {

class DeviceSet {
 public:
  explicit DeviceSet(int threads, TensorObserver observer = {}) : threads_(threads), observer_(std::move(observer)) {}

  // A name as Device::open() takes it, "" for the CPU. "NAME#2" is another one on the same hardware, with its own threads and scratch
  // memory. Errors: those of Device::open().
  Result<Device*> get(const std::string& name);
  // Times the nodes of all, also of those opened later, into `profile`, which outlives this.
  void set_profile(Profile* profile);
  // Gives the scratch memory of all back.
  void release_working_memory();

 private:
  int threads_;
  std::mutex mutex_;
  TensorObserver observer_;
  Profile* profile_ = nullptr;
  std::map<std::string, std::unique_ptr<Device>> devices_;
};

}  // namespace tritium
