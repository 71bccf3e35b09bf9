// Where the weights and the memory of a request go: which device runs a stage, which blocks stay on it and which are streamed, what is in
// host memory, and how long it takes. Pure functions of shapes, budgets and speeds: no weights, no files, no devices.
//
// The rules. Every stage may have the whole budget of a device: what was loaded before leaves when there is no room for both. A stage that
// does not fit streams its blocks: of n blocks r stay and the others pass through one or two slots, so that with two slots a transfer hides
// behind the computation. A stage may be split by layers over several devices in proportion to the room they have. Of all possibilities the
// fastest is taken, but one that streams nothing may be a hundredth slower; among equals the one that stays loaded, then the first device.
#pragma once

#include "doctor/speeds.h"
#include "pipeline/model_shape.h"

#include <functional>
#include <map>
#include <optional>

namespace tritium {

// How an acceleration changes the costs of a request.
struct AcceleratedShape {
  int evaluations = 0;    // of the transformer that are computed; 0: one a step
  int blocks = 0;         // of the transformer that run; 0: all
  int remembered = 0;     // latents kept from earlier steps, in host memory
  bool residual = false;  // what the blocks added is kept on the first device
  video_vae::Decoding decoding = video_vae::Decoding::full;
};

// The part of a request that costs memory and time.
struct RequestShape {
  int width = 0, height = 0, frames = 0, steps = 0;  // frames on the lattice (clip_length.h)
  int text_tokens = 0;
  std::int64_t condition_rows = 0;
  double input_flops = 0;  // of encoding pictures, videos and sounds
  std::uint64_t input_working_bytes = 0;
  bool has_inputs = false;
  AcceleratedShape acceleration{};
};

struct MachineDevice {
  std::string name;
  std::uint64_t budget = 0;                  // bytes the request may take; of a host device that of the host counts
  bool host = false;                         // computes in host memory
  double flops = 0;                          // operations per second
  double host_bandwidth = 0;                 // bytes per second from host memory
  std::optional<MeasuredSpeeds> measured{};  // taken instead of `flops` where they say something
};

// Where a stage has to run: indices of devices, and how its blocks are divided (empty: in proportion to the room they have).
struct StageDevices {
  std::vector<std::size_t> devices;
  std::vector<double> shares;
};

struct Machine {
  std::vector<MachineDevice> devices;  // those that compute in host memory share its budget
  std::uint64_t host_budget = 0;
  double disk_bandwidth = 0;                               // bytes per second
  std::map<std::string, StageDevices, std::less<>> fixed;  // by stage; others run where it is best
};

// What a plan may make use of.
struct MemoryPolicy {
  bool leave = true;    // weights of a finished stage may leave
  bool stream = true;   // blocks may be streamed
  bool split = true;    // a stage may use several devices
  bool release = true;  // activations of a finished stage are given back
};

struct MemoryPlan {
  std::vector<StagePlan> stages;     // as in Plan::stages
  std::vector<MemoryPeak> memories;  // one per device that is not the host, then "host"
  double seconds = 0;

  [[nodiscard]] const StagePlan* stage(std::string_view name) const;
  [[nodiscard]] std::uint64_t peak_of(std::string_view memory) const;  // 0 if there is none of this name
};

// What the request needs at the least, for a refusal.
struct MemoryShortage {
  std::string stage, memory;  // the first that does not fit, and where
  std::uint64_t need = 0, have = 0;
};

struct MemoryAlternatives {
  std::vector<ModelShape> models;      // the same model in other formats
  std::vector<MachineDevice> devices;  // others of this machine
};
// Error: does_not_fit with need, have, and what would fit according to `alternatives` (asked only then; may be empty), found by trying.
Result<MemoryPlan> plan_memory(const ModelShape& model, const RequestShape& request, const Machine& machine, MemoryPolicy policy = {},
                               const std::function<MemoryAlternatives()>& alternatives = {});

// The same without looking for alternatives: nothing if it fits.
std::optional<MemoryShortage> try_plan(const ModelShape& model, const RequestShape& request, const Machine& machine, MemoryPolicy policy,
                                       MemoryPlan& plan);

// Weights, blocks, transfers, time of every stage in a table, and the peaks.
std::string memory_text(const std::vector<StagePlan>& stages, const std::vector<MemoryPeak>& memories);

}  // namespace tritium
