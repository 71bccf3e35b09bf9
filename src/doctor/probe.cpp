#include "doctor/probe.h"

namespace tritium::doctor {

namespace {

std::vector<Probe> probes_of(bool cpu) {
  std::vector<Probe> out;
  for (const auto& family :
       {norm_probes(), attention_probes(), linear_probes(), long_probes(cpu), stored_matrix_probes(), convolution_probes(), sound_probes()})
    out.insert(out.end(), family.begin(), family.end());
  return out;
}

}  // namespace

std::vector<Probe> all_probes(const Device& device) { return probes_of(device.is_cpu()); }

std::set<std::string> all_operations() {
  std::set<std::string> out;
  for (const Probe& probe : probes_of(true)) out.insert(probe.operation);
  return out;
}

}  // namespace tritium::doctor
