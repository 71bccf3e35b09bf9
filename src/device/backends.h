// ggml's registry of backends. Loading all of them starts graphics drivers, which takes up to half a second and memory on the devices, so
// only what is asked for is loaded. Everything here may be called from several threads.
#pragma once

#include <tritium/result.h>

#include <ggml-backend.h>
#include <string>
#include <vector>

namespace tritium::backends {

// The CPU's device; nullptr when ggml was installed without it.
ggml_backend_dev_t cpu();

// The devices of all installed backends, the CPU first; without those behind a network connection. Backends other than the CPU's are
// loaded where the machine has such hardware, or where an environment variable asks for software devices (GGML_VK_VISIBLE_DEVICES) or
// names a backend (GGML_BACKEND_PATH).
std::vector<ggml_backend_dev_t> all();

// By its name in the registry, in upper or lower case; empty: the CPU. Errors (device) list what there is.
Result<ggml_backend_dev_t> find(const std::string& name);

// The registry entry of one backend ("RPC"), loading no other; nullptr when it is not installed.
ggml_backend_reg_t named(const std::string& name);

template <class Function>
Function function(ggml_backend_reg_t backend, const char* name) {
  return reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(backend, name));
}
template <class Function>
Function function(ggml_backend_dev_t device, const char* name) {
  return function<Function>(ggml_backend_dev_backend_reg(device), name);
}

}  // namespace tritium::backends
