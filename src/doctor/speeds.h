// How fast a machine is at what the model does.
#pragma once

#include "base/cancel.h"
#include "device/device.h"

#include <filesystem>
#include <optional>

namespace tritium {

// Measured, or 0 where it could not be.
struct MeasuredSpeeds {
  std::string device, description;  // as in DeviceInfo
  int threads = 0;                  // of the CPU
  // Operations per second: products with matrices kept and multiplied in float32, in bfloat16, and kept as int8; attention.
  double f32 = 0, bf16 = 0, int8 = 0, attention = 0;
  // Bytes per second: copies within host memory (each byte counted once), host to device, and reading weights from disk.
  double host_copy = 0, upload = 0, disk = 0;
  std::string disk_how;  // what was read, and how the page cache was kept out
  std::string measured;  // when, in UTC
};

// Speeds that an earlier measurement of the same version left in the user's cache folder. `warning` is set when the file is there but
// cannot be used.
std::optional<MeasuredSpeeds> stored_speeds(const DeviceInfo& device, std::string* warning = nullptr);

namespace doctor {

// Everything but the disk; about two seconds. Errors: of the device, interrupted.
Result<MeasuredSpeeds> measure_speeds(Device& device, const CancelToken* cancel);

struct DiskSpeed {
  double bytes_per_second = 0;
  std::string how;
};
// Reads up to 1 GiB, or for two seconds. Error: failure.
Result<DiskSpeed> disk_speed(const std::filesystem::path& file);
// Of a file that is written to the folder for it, and removed.
Result<DiskSpeed> disk_speed_of_folder(const std::filesystem::path& folder);

// "speeds.json" in the user's cache folder; empty if there is none.
std::filesystem::path speeds_file();
// Replaces what the file has for the same devices.
Result<void> store_speeds(const std::vector<MeasuredSpeeds>& speeds);

}  // namespace doctor
}  // namespace tritium
