// What the doctor looks at: one small struct per check. A check runs an operation of src/ops at a shape and with values of the real model
// (spec/dit.md §1, §15, §16; spec/text.md §3; spec/vae.md) and compares chosen outputs with plain loops in double precision.
#pragma once

#include "doctor/bench.h"
#include "doctor/compare.h"

namespace tritium::doctor {

struct Probe {
  std::string operation;    // "linear", "attention", ...
  std::string what;         // shape, type and values, for people
  std::uint64_t bytes = 0;  // memory on the device, about
  bool has_kernel = false;  // the CPU has a hand-written kernel for it
  bool thorough = false;    // only when all is wanted
  std::function<Result<Comparison>(Bench&)> run;
};

std::vector<Probe> linear_probes();
std::vector<Probe> stored_matrix_probes();  // quantized forms
std::vector<Probe> attention_probes();
std::vector<Probe> norm_probes();         // norms, modulation, gates, rotary embedding
std::vector<Probe> convolution_probes();  // of the video VAE
std::vector<Probe> sound_probes();        // of the audio VAE
// Beyond 2^31 elements. `untouched_is_free`: memory that is never written costs nothing, as on the CPU.
std::vector<Probe> long_probes(bool untouched_is_free);

// All of them, those that matter most first.
std::vector<Probe> all_probes(const Device& device);
std::set<std::string> all_operations();

}  // namespace tritium::doctor
