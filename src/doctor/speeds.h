// How fast a machine is at what the model does.
#pragma once

#include "base/cancel.h"
#include "device/device.h"

#include <array>
#include <filesystem>
#include <optional>

namespace tritium {

// How the matrices of a part are kept and multiplied, as far as speed goes.
enum class ProductKind {
  f32,
  bf16,
  decoded,  // kept in fewer bits or as float16, multiplied in bfloat16
  int8,     // kept in at most 8 bits, multiplied as integers of 8 bits
  sound,    // convolutions of a signal, each behind its activation, in float32
};
inline constexpr std::size_t kProductKinds = 5;

// A matrix costs time for every row it meets, and once for being fetched and, where it is coded, decoded. A signal costs time for every
// operation of a convolution, and for every value that passes its activation.
struct ProductSpeed {
  double operations = 0;  // per second; 0: not measured
  double values = 0;      // of the matrix, or of the signal, per second; 0: not measured, or nothing beside the operations
};

// Measured, or 0 where it could not be.
struct MeasuredSpeeds {
  std::string device, description;  // as in DeviceInfo
  int threads = 0;                  // of the CPU
  std::array<ProductSpeed, kProductKinds> products;
  double attention = 0, narrow_attention = 0;  // operations per second in float32, and in bfloat16 beside matrices that are not float32
  // Bytes per second: copies within host memory (each byte counted once), host to device, and reading weights from disk.
  double host_copy = 0, upload = 0, disk = 0;
  std::string disk_how;  // what was read, and how the page cache was kept out
  std::string measured;  // when, in UTC

  [[nodiscard]] ProductSpeed& of(ProductKind kind) { return products[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] const ProductSpeed& of(ProductKind kind) const { return products[static_cast<std::size_t>(kind)]; }
};

// Speeds that an earlier measurement of the same version left in the user's cache folder. `warning` is set when the file is there but
// cannot be used.
std::optional<MeasuredSpeeds> stored_speeds(const DeviceInfo& device, std::string* warning = nullptr);

namespace doctor {

// Everything but the disk; about four seconds. Errors: of the device, interrupted.
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
