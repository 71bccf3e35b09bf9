// "tritium doctor" for one device.
#pragma once

#include "cli/common.h"
#include "pipeline/doctor_report.h"

namespace tritium::cli {

struct DoctorOptions {
  ModelOptions model;  // without `device`
  std::vector<std::string> devices, only;
  bool full = false, json = false, no_speeds = false;
};

// The models whose times are estimated, and where the weights of the one given lie. The built-in demonstration model where none is named.
struct DoctorModels {
  std::vector<ModelShape> shapes;
  std::filesystem::path weights;
};
Result<DoctorModels> doctor_models(const ModelOptions& options);

// Checks the device and measures its speeds, which are stored for later plans. `line`: called for the heading and after each check with
// text for people. A device that cannot be used is a report, not an error. Error: interrupted.
Result<DoctorReport> examine_device(const DeviceInfo& device, const DoctorOptions& options, const DoctorModels& models,
                                    const std::function<void(const std::string&)>& line);

}  // namespace tritium::cli
