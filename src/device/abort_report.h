// ggml ends the process on errors that it cannot hand back: a lost RPC server, a failed check inside a backend. This makes sure that it
// says on standard error what was being done with which devices.
#pragma once

#include <string_view>

namespace tritium {

// Takes over ggml's last words (a callback installed before is called after ours): one line
//
//   tritium: a compute backend failed in stage denoise, step 12 of 100; devices in use: RPC0: ggml-rpc.cpp:527: ...
//
// The process then aborts as before. Called when the backends are loaded.
void report_aborts();

// For programs: the process then ends with this status, without a core dump and without its temporary files.
void exit_on_abort(int status);

// What the line says of the work; the last call counts. Cheap, from any thread. `of` 0: no step is named.
void note_stage(std::string_view stage, int step, int of);

// What the line says of the devices: named as long as one of these exists.
class DeviceInUse {
 public:
  explicit DeviceInUse(std::string_view name);
  DeviceInUse(const DeviceInUse&) = delete;
  DeviceInUse& operator=(const DeviceInUse&) = delete;
  ~DeviceInUse();

 private:
  int slot_;  // -1: there was no room, the device is not named
};

// The line itself, for tests.
std::size_t write_abort_report(char* buffer, std::size_t size, const char* message);

}  // namespace tritium
