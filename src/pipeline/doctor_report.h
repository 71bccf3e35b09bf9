// What "tritium doctor" found, for people and for machines.
#pragma once

#include "doctor/examine.h"
#include "pipeline/estimate.h"

namespace tritium {

struct DeviceReport {
  DeviceInfo device;
  int threads = 0;
  std::string error;  // it could not be opened, or its speeds could not be measured
  std::vector<doctor::ProbeResult> results;
  std::optional<MeasuredSpeeds> speeds;
  std::vector<TimeEstimate> estimates;

  [[nodiscard]] bool usable() const { return error.empty() && doctor::usable(results); }
};

struct DoctorReport {
  std::vector<DeviceReport> devices;
  std::vector<std::string> notes;  // where speeds were stored, what could not be done

  [[nodiscard]] bool usable() const;
};

// One line per check, bandwidths and speeds, estimates, advice. In three pieces, so that a line can be printed when its check is done;
// `width`: of the longest description.
std::string doctor_heading(const DeviceReport& report, std::size_t width);
std::string doctor_line(const DeviceReport& report, const doctor::ProbeResult& result, std::size_t width);
std::string doctor_summary(const DeviceReport& report);
std::string doctor_text(const DoctorReport& report);
std::string doctor_json(const DoctorReport& report);

}  // namespace tritium
