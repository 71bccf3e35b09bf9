#include "pipeline/memory_plan.h"

#include "pipeline/memory_advice.h"
#include "pipeline/memory_stages.h"
#include "pipeline/stage_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace tritium {
namespace {

using Bytes = std::uint64_t;

// One stage on chosen devices.
struct Candidate {
  StagePlan stage;
  std::vector<std::size_t> devices;  // of each share
  bool whole = true;                 // nothing is streamed
};

// What has been placed on a device: weights that would like to stay, and the most activations of one stage.
struct Load {
  Bytes resident = 0, working = 0;
};

class Planner {
 public:
  Planner(const Machine& machine, MemoryPolicy policy) : machine_(machine), policy_(policy) {}

  // The best way for a stage that has the devices for itself; none: `shortage` tells. `loads`: of the stages placed before, per device.
  std::optional<Candidate> place(const StageNeed& need, const std::vector<Load>& loads, MemoryShortage& shortage);

  [[nodiscard]] Bytes budget(std::size_t device) const {
    return machine_.devices[device].host ? machine_.host_budget : machine_.devices[device].budget;
  }
  [[nodiscard]] const PartShape& part(const StageNeed& need, std::size_t device) const {
    return need.part_on(machine_.devices[device].host);
  }
  // The first device with the same memory: all that compute on the host have one.
  [[nodiscard]] std::size_t memory_of(std::size_t device) const {
    if (!machine_.devices[device].host) return device;
    const auto host = [](const MachineDevice& d) { return d.host; };
    return static_cast<std::size_t>(std::find_if(machine_.devices.begin(), machine_.devices.end(), host) - machine_.devices.begin());
  }
  [[nodiscard]] bool in_memory_of(const DeviceShare& share, std::size_t device) const {
    const auto named = [&](const MachineDevice& d) { return d.name == share.device; };
    const auto found = std::find_if(machine_.devices.begin(), machine_.devices.end(), named);
    return memory_of(static_cast<std::size_t>(found - machine_.devices.begin())) == memory_of(device);
  }
  // Of a stage alone; the host's memory counts on a device that computes there.
  [[nodiscard]] Bytes peak(const StagePlan& stage, std::size_t device) const {
    Bytes sum = machine_.devices[device].host ? stage.host_bytes : 0;
    for (const DeviceShare& share : stage.shares)
      if (in_memory_of(share, device)) sum += share.peak_bytes();
    return sum;
  }

  // Whether its weights could be there while the others run, and theirs while it does.
  [[nodiscard]] bool may_stay(const Candidate& candidate, const std::vector<Load>& loads) const {
    return std::all_of(candidate.devices.begin(), candidate.devices.end(), [&](std::size_t device) {
      const Load& load = loads[memory_of(device)];
      Bytes weights = load.resident;
      for (const DeviceShare& share : candidate.stage.shares)
        if (in_memory_of(share, device)) weights += share.resident_bytes;
      return peak(candidate.stage, device) + load.resident <= budget(device) && weights + load.working <= budget(device);
    });
  }

 private:
  [[nodiscard]] Bytes available(const StageNeed& need, std::size_t device) const {
    const bool host = machine_.devices[device].host;
    const Bytes others = (host ? need.host : 0) + (taken_.empty() ? 0 : taken_[memory_of(device)]);
    return (budget(device) - std::min(budget(device), others)) / (host ? hosts_ : 1);
  }
  using Groups = std::vector<std::vector<std::size_t>>;
  [[nodiscard]] Groups groups_for(const StageNeed& need) const;
  [[nodiscard]] std::optional<Candidate> best_of(const StageNeed& need, const Groups& groups, const std::vector<Load>& loads);
  // What a device has for blocks; none if not even the rest fits.
  [[nodiscard]] std::optional<Bytes> room(const StageNeed& need, std::size_t device, Bytes fixed) const {
    const Bytes available = this->available(need, device);
    return available >= fixed ? std::optional(available - fixed) : std::nullopt;
  }
  [[nodiscard]] std::optional<DeviceShare> share(const StageNeed& need, std::size_t device, std::span<const UnitBytes> units,
                                                 UnitBytes other, int slots) const;
  [[nodiscard]] std::optional<Candidate> on_devices(const StageNeed& need, std::vector<std::size_t> devices, int slots) const;
  [[nodiscard]] std::vector<std::size_t> divide(const StageNeed& need, const std::vector<std::size_t>& devices) const;
  void time(const StageNeed& need, Candidate& candidate) const;

  const Machine& machine_;
  MemoryPolicy policy_;
  std::vector<Bytes> taken_;  // per device, by weights that are to stay; empty: nothing
  Bytes hosts_ = 1;           // devices of the stage that share the host's memory
};

// All units if they fit, otherwise as many as leave room for the slots.
std::optional<DeviceShare> Planner::share(const StageNeed& need, std::size_t device, std::span<const UnitBytes> units, UnitBytes other,
                                          int slots) const {
  const auto room = this->room(need, device, other.resident + need.working);
  if (!room) return std::nullopt;
  DeviceShare out{
      machine_.devices[device].name, static_cast<int>(units.size()), static_cast<int>(units.size()), 0, other.resident, 0, need.working};
  Bytes total = 0, largest = 0;
  for (const UnitBytes& unit : units) {
    total += unit.resident;
    largest = std::max(largest, unit.resident);
  }
  if (total <= *room) {
    out.resident_bytes += total;
    return out;
  }
  if (!policy_.stream) return std::nullopt;
  out.slots = slots;
  const Bytes in_flight = static_cast<Bytes>(slots) * largest;
  if (in_flight > *room) return std::nullopt;
  Bytes kept = 0;
  out.resident_blocks = 0;
  for (const UnitBytes& unit : units) {
    if (kept + unit.resident + in_flight > *room) break;
    kept += unit.resident;
    ++out.resident_blocks;
  }
  out.resident_bytes += kept + in_flight;
  out.streamed_bytes = static_cast<Bytes>(need.units_used * static_cast<double>(total - kept));
  return out;
}

// Blocks per device in proportion to the room, and never more than fit while another device has room for them.
std::vector<std::size_t> Planner::divide(const StageNeed& need, const std::vector<std::size_t>& devices) const {
  std::vector<double> rooms;
  for (std::size_t i = 0; i < devices.size(); ++i)
    rooms.push_back(
        static_cast<double>(room(need, devices[i], need.working + (i == 0 ? part(need, devices[i]).other.resident : 0)).value_or(0)));
  const auto fixed = machine_.fixed.find(need.name);
  const bool asked = fixed != machine_.fixed.end() && !fixed->second.shares.empty();
  const std::vector<double>& weights = asked ? fixed->second.shares : rooms;
  const double sum = std::max(1e-9, std::accumulate(weights.begin(), weights.end(), 0.0));
  const auto units = static_cast<double>(need.part->units.size());
  std::vector<std::size_t> counts;
  double share = 0;
  std::size_t given = 0;
  for (const double each : weights) {
    share += each / sum * units;
    const auto until = static_cast<std::size_t>(std::llround(share));
    counts.push_back(until - given);
    given = until;
  }
  if (asked) return counts;
  const auto largest =
      static_cast<double>(std::max({Bytes{1}, need.part->largest_unit(), need.device_part ? need.device_part->largest_unit() : 0}));
  for (std::size_t i = 0; i < counts.size(); ++i)
    while (static_cast<double>(counts[i]) * largest > rooms[i]) {
      std::size_t other = 0;
      while (other < counts.size() && static_cast<double>(counts[other] + 1) * largest > rooms[other]) ++other;
      if (other == counts.size() || counts[i] == 0) break;
      --counts[i];
      ++counts[other];
    }
  return counts;
}

std::optional<Candidate> Planner::on_devices(const StageNeed& need, std::vector<std::size_t> devices, int slots) const {
  Candidate out;
  const std::vector<std::size_t> counts = divide(need, devices);
  std::size_t first = 0;
  if (devices.size() > 1 && std::count(counts.begin(), counts.end(), 0u) > 0) return std::nullopt;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const PartShape& part = this->part(need, devices[i]);
    const std::span<const UnitBytes> units = part.units;
    const std::size_t count = devices.size() == 1 ? units.size() : counts[i];
    const auto share = this->share(need, devices[i], units.subspan(first, count), i == 0 ? part.other : UnitBytes{}, slots);
    if (!share) return std::nullopt;
    first += count;
    for (const UnitBytes& unit : units.subspan(first - count, count)) out.stage.weight_bytes += unit.resident;
    out.stage.weight_bytes += i == 0 ? part.other.resident : 0;
    out.whole = out.whole && share->resident_blocks == share->blocks;
    out.stage.transfer_bytes += share->streamed_bytes;
    out.stage.shares.push_back(*share);
  }
  out.devices = std::move(devices);
  out.stage.name = need.name;
  out.stage.host_bytes = need.host;
  out.stage.passes = need.passes;
  out.stage.flops = need.work.flops;
  out.stage.precision = need.part->format;
  out.stage.working_bytes = need.working;
  for (const DeviceShare& share : out.stage.shares) out.stage.device += (out.stage.device.empty() ? "" : "+") + share.device;
  time(need, out);
  return out;
}

// The first pass reads the weights, the others what is not kept: from host memory if it can hold that, else from the disk.
void Planner::time(const StageNeed& need, Candidate& c) const {
  const UnitBytes total = part(need, c.devices.front()).total();
  const double file_per_byte = static_cast<double>(total.file) / static_cast<double>(std::max<Bytes>(1, total.resident));
  const Bytes from_host = c.stage.transfer_bytes;
  const bool computing_host =
      std::any_of(c.devices.begin(), c.devices.end(), [this](std::size_t device) { return machine_.devices[device].host; });
  const bool cached = !computing_host && need.host + from_host <= machine_.host_budget;
  if (cached) c.stage.host_bytes += from_host;
  double pass = 0, first = 0;
  for (std::size_t i = 0; i < c.devices.size(); ++i) {
    const MachineDevice& device = machine_.devices[c.devices[i]];
    const DeviceShare& share = c.stage.shares[i];
    const double portion =
        need.part->units.empty() ? 1.0 : static_cast<double>(share.blocks) / static_cast<double>(need.part->units.size());
    const auto measured = device.measured ? compute_seconds(need.work, part(need, c.devices[i]).product, *device.measured) : std::nullopt;
    const double compute = measured.value_or(need.work.flops / device.flops) / need.passes * portion;
    const auto streamed = static_cast<double>(share.streamed_bytes);
    const double read = streamed * file_per_byte / machine_.disk_bandwidth;
    const double transfer = cached ? std::min(read, streamed / device.host_bandwidth) : read;
    pass += share.slots == 1 ? compute + transfer : std::max(compute, transfer);
    first += compute;
    if (i > 0) pass += static_cast<double>(need.handover) / std::max(1.0, device.host_bandwidth);
    if (i > 0) first += static_cast<double>(need.handover) / std::max(1.0, device.host_bandwidth);
  }
  c.stage.load_seconds = static_cast<double>(total.file) / machine_.disk_bandwidth;
  c.stage.seconds = first + (need.passes - 1) * pass;
}

std::optional<Candidate> Planner::best_of(const StageNeed& need, const Groups& groups, const std::vector<Load>& loads) {
  std::optional<Candidate> best;
  double best_cost = 0;
  bool best_stays = false;
  constexpr double kStreamingCost = 1.01, kEqual = 1e-9;
  for (const auto& group : groups)
    for (const int slots : {2, 1}) {
      const auto host = [this](std::size_t device) { return machine_.devices[device].host; };
      hosts_ = std::max<Bytes>(1, static_cast<Bytes>(std::count_if(group.begin(), group.end(), host)));
      auto candidate = on_devices(need, group, slots);
      if (!candidate || candidate->stage.host_bytes > machine_.host_budget) continue;
      const double cost = candidate->stage.seconds * (candidate->whole ? 1.0 : kStreamingCost);
      const bool stays = may_stay(*candidate, loads);
      if (best && cost > best_cost * (1 - kEqual) && (cost > best_cost * (1 + kEqual) || best_stays || !stays)) continue;
      best = std::move(candidate);
      best_cost = cost;
      best_stays = stays;
    }
  return best;
}

// Where a stage may run: each device, and where it can be split the roomiest two, three, ...
Planner::Groups Planner::groups_for(const StageNeed& need) const {
  if (const auto fixed = machine_.fixed.find(need.name); fixed != machine_.fixed.end()) return {fixed->second.devices};
  Groups groups;
  std::vector<std::size_t> order(machine_.devices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const std::size_t device : order) groups.push_back({device});
  if (!policy_.split || !need.splits) return groups;
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) { return budget(a) > budget(b); });
  for (std::size_t count = 2; count <= order.size(); ++count) {
    std::vector<std::size_t> group(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    std::sort(group.begin(), group.end());
    groups.push_back(std::move(group));
  }
  return groups;
}

std::optional<Candidate> Planner::place(const StageNeed& need, const std::vector<Load>& loads, MemoryShortage& shortage) {
  const Groups groups = groups_for(need);
  // What is used once is read once, streamed or not: rather beside what stays than in its place.
  if (policy_.stream && need.passes == 1) {
    for (const Load& load : loads) taken_.push_back(load.resident);
    auto beside = best_of(need, groups, loads);
    taken_.clear();
    if (beside) return beside;
  }
  if (auto best = best_of(need, groups, loads)) return best;
  std::size_t widest = groups.front().front();
  for (const auto& group : groups)
    for (const std::size_t device : group) widest = budget(device) > budget(widest) ? device : widest;
  const PartShape& part = this->part(need, widest);
  const Bytes units = policy_.stream ? part.largest_unit() : part.total().resident - part.other.resident;
  shortage = {need.name, machine_.devices[widest].host ? "host" : machine_.devices[widest].name,
              part.other.resident + need.working + units + (machine_.devices[widest].host ? need.host : 0), budget(widest)};
  if (shortage.need <= shortage.have || need.host > machine_.host_budget)
    shortage = {need.name, "host", std::max(need.host, machine_.host_budget + 1), machine_.host_budget};
  return std::nullopt;
}

// The order in which parts are worth keeping.
constexpr std::array<std::string_view, 5> kPriority = {"denoise", "text", "video", "audio", "inputs"};

}  // namespace

const StagePlan* MemoryPlan::stage(std::string_view name) const {
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const StagePlan& s) { return s.name == name; });
  return found == stages.end() ? nullptr : &*found;
}

std::uint64_t MemoryPlan::peak_of(std::string_view memory) const {
  const auto found = std::find_if(memories.begin(), memories.end(), [&](const MemoryPeak& m) { return m.name == memory; });
  return found == memories.end() ? 0 : found->peak_bytes;
}

namespace {

// Decides what stays loaded, and the peaks that follow.
class Residents {
 public:
  Residents(const Machine& machine, const Planner& planner, MemoryPlan& plan) : machine_(machine), planner_(planner), plan_(plan) {}

  // Everything stays; the first memory where it does not fit.
  std::optional<MemoryShortage> keep_all() {
    for (StagePlan& stage : plan_.stages) stage.stays = true;
    write_peaks();
    for (const MemoryPeak& memory : plan_.memories)
      if (memory.peak_bytes > memory.budget_bytes) return MemoryShortage{"", memory.name, memory.peak_bytes, memory.budget_bytes};
    return {};
  }

  void keep_what_fits() {
    for (StagePlan& stage : plan_.stages) stage.stays = false;
    for (const std::string_view name : kPriority)
      for (StagePlan& stage : plan_.stages) {
        if (stage.name != name) continue;
        stage.stays = true;
        for (std::size_t device = 0; device < machine_.devices.size(); ++device)
          if (peak(device) > planner_.budget(device)) stage.stays = false;
      }
  }

  void write_peaks() {
    Bytes host = 0;
    for (const StagePlan& stage : plan_.stages) host = std::max(host, stage.host_bytes);
    for (std::size_t device = 0; device < machine_.devices.size(); ++device) {
      const Bytes peak = this->peak(device);
      if (machine_.devices[device].host) {
        host = std::max(host, peak);
      } else {
        plan_.memories.push_back({machine_.devices[device].name, planner_.budget(device), peak});
      }
    }
    plan_.memories.push_back({"host", machine_.host_budget, host});
  }

 private:
  [[nodiscard]] Bytes peak(std::size_t device) const {
    Bytes most = 0;
    for (const StagePlan& stage : plan_.stages) {
      Bytes sum = planner_.peak(stage, device);
      for (const StagePlan& other : plan_.stages)
        if (other.stays && &other != &stage)
          for (const DeviceShare& share : other.shares)
            if (planner_.in_memory_of(share, device)) sum += share.resident_bytes;
      most = std::max(most, sum);
    }
    return most;
  }

  const Machine& machine_;
  const Planner& planner_;
  MemoryPlan& plan_;
};

}  // namespace

namespace {

Machine unlimited(Machine machine) {
  constexpr Bytes kPlenty = Bytes{1} << 60;
  machine.host_budget = kPlenty;
  for (MachineDevice& device : machine.devices) device.budget = kPlenty;
  return machine;
}

}  // namespace

std::optional<MemoryShortage> try_plan(const ModelShape& model, const RequestShape& request, const Machine& machine, MemoryPolicy policy,
                                       MemoryPlan& plan) {
  std::vector<StageNeed> needs = stage_needs(model, request);
  if (!policy.release)
    for (std::size_t i = 1; i < needs.size(); ++i) needs[i].working = std::max(needs[i].working, needs[i - 1].working);
  // If nothing may leave, only all stages together tell whether they fit.
  const Machine roomy = policy.leave ? machine : unlimited(machine);
  Planner planner(roomy, policy);
  const Planner real(machine, policy);
  std::vector<Load> loads(machine.devices.size());
  std::vector<std::optional<Candidate>> placed(needs.size());
  std::optional<MemoryShortage> worst;
  for (const std::string_view name : kPriority)
    for (std::size_t i = 0; i < needs.size(); ++i) {
      if (needs[i].name != name) continue;
      MemoryShortage shortage;
      placed[i] = planner.place(needs[i], loads, shortage);
      if (placed[i]) {
        for (std::size_t k = 0; k < placed[i]->devices.size(); ++k) {
          const DeviceShare& share = placed[i]->stage.shares[k];
          Load& load = loads[planner.memory_of(placed[i]->devices[k])];
          load.resident += share.resident_bytes;
          load.working = std::max(load.working, share.working_bytes);
        }
      } else if (!worst || shortage.need - std::min(shortage.need, shortage.have) > worst->need - std::min(worst->need, worst->have)) {
        worst = shortage;
      }
    }
  if (worst) return worst;
  plan = {};
  for (auto& each : placed) {
    plan.seconds += each->stage.load_seconds + each->stage.seconds;
    plan.stages.push_back(std::move(each->stage));
  }
  Residents residents(machine, real, plan);
  if (!policy.leave) return residents.keep_all();
  residents.keep_what_fits();
  residents.write_peaks();
  return {};
}

Result<MemoryPlan> plan_memory(const ModelShape& model, const RequestShape& request, const Machine& machine, MemoryPolicy policy,
                               const std::function<MemoryAlternatives()>& alternatives) {
  MemoryPlan plan;
  const auto shortage = try_plan(model, request, machine, policy, plan);
  if (!shortage) return plan;
  return refusal(*shortage, model, request, machine, policy, alternatives ? alternatives() : MemoryAlternatives{});
}

}  // namespace tritium
