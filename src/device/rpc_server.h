// Lending a device of this machine to other processes (device/rpc.h). Whoever can connect can use it, and can make the process fail.
#pragma once

#include <tritium/result.h>

#include <functional>
#include <string>

namespace tritium::rpc {

struct ServerOptions {
  std::string host = "127.0.0.1";  // to listen on
  int port = 0;                    // 0: any that is free
  std::string device;              // as for Device::open; empty: the CPU
  int threads = 0;                 // of the CPU; 0: all usable processors
  bool beyond_loopback = false;    // whether `host` may be an address that others can reach
};

// Serves one process after the other until this process is ended; returns on errors only: usage (host, port), device. `ready` is called
// from another thread once connections are accepted, with the name for Device::open.
Result<void> serve(const ServerOptions& options, const std::function<void(const std::string& name)>& ready);

}  // namespace tritium::rpc
