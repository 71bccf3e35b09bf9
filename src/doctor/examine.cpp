#include "doctor/examine.h"

#include "base/system.h"
#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace tritium::doctor {
namespace {

// Left free beside what a check needs.
constexpr std::uint64_t kReserve = 512u << 20;

std::uint64_t free_bytes(const Device& device) {
  if (device.is_cpu()) return host_memory().available;
  for (const DeviceInfo& each : list_devices())
    if (each.name == device.info().name) return each.memory_free;
  return 0;
}

class Examination {
 public:
  Examination(Device& device, const ExamineOptions& options) : device_(device), options_(options), kernels_(device.fast_kernels()) {}
  ~Examination() { device_.set_fast_kernels(kernels_); }
  Examination(const Examination&) = delete;
  Examination& operator=(const Examination&) = delete;

  Result<std::vector<ProbeResult>> run(const std::vector<Probe>& probes) {
    std::vector<const Probe*> chosen;
    for (const Probe& probe : probes)
      if (options_.thorough || !probe.thorough) chosen.push_back(&probe);
    int number = 0;
    for (const Probe* probe : chosen) {
      if (options_.cancel != nullptr) TRITIUM_TRY(options_.cancel->check("the examination"));
      progress_ = [&, number = ++number](const ProbeResult* result) {
        if (options_.progress) options_.progress(number, static_cast<int>(chosen.size()), *probe, result);
      };
      look_at(*probe);
    }
    return std::move(results_);
  }

 private:
  void look_at(const Probe& probe) {
    const std::string reason = reason_against(probe);
    if (!reason.empty()) return add(probe, "", {Verdict::left_out, 0, 0, 0, reason});
    const Outcome first = try_path(probe, kernels_);
    if (!kernels_ || !probe.has_kernel || (first.verdict == Verdict::ok && !options_.thorough)) return;
    const Outcome plain = try_path(probe, false);
    if (first.verdict != Verdict::failed) return;
    results_[results_.size() - 2].outcome.note +=
        plain.verdict == Verdict::failed ? "; plain operations are wrong here too" : "; plain operations are right";
  }

  [[nodiscard]] std::string reason_against(const Probe& probe) const {
    if (options_.seconds > 0 && monotonic_seconds() - start_ > options_.seconds)
      return fmt::format("the {:.0f} seconds for this device are over", options_.seconds);
    const std::uint64_t free = free_bytes(device_);
    if (free > 0 && probe.bytes + kReserve > free)
      return fmt::format("needs {} of memory, {} is free", format_bytes(probe.bytes + kReserve), format_bytes(free));
    return {};
  }

  Outcome try_path(const Probe& probe, bool kernels) {
    progress_(nullptr);
    device_.set_fast_kernels(kernels);
    const double start = monotonic_seconds();
    Bench bench(device_, options_.operations);
    const Result<Comparison> result = probe.run(bench);
    Outcome outcome = judge(result, {kernels && probe.has_kernel, bench.used_kernel(), bench.elsewhere()});
    outcome.seconds = monotonic_seconds() - start;
    add(probe, !device_.is_cpu() || !probe.has_kernel ? "" : kernels ? "kernels" : "plain", outcome);
    return outcome;
  }

  void add(const Probe& probe, std::string path, Outcome outcome) {
    results_.push_back({probe.operation, probe.what, std::move(path), std::move(outcome)});
    progress_(&results_.back());
  }

  Device& device_;
  const ExamineOptions& options_;
  const bool kernels_;
  const double start_ = monotonic_seconds();
  std::function<void(const ProbeResult*)> progress_;
  std::vector<ProbeResult> results_;
};

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::refused:
      return "refused";
    case Verdict::failed:
      return "failed";
    case Verdict::left_out:
      return "left out";
  }
  return "";
}

Outcome judge(const Result<Comparison>& result, const Circumstances& circumstances) {
  Outcome out;
  if (!result.ok()) {
    const bool memory = result.error().code == ErrorCode::does_not_fit;
    out.verdict = memory ? Verdict::left_out : Verdict::failed;
    out.note = result.error().message;
    return out;
  }
  out.error = result->error();
  out.tolerance = result->tolerance();
  out.note = result->where().empty() || result->passed() ? "" : "worst at " + result->where();
  if (!result->passed()) {
    out.verdict = Verdict::failed;
    if (result->count() == 0) out.note = "nothing was compared";
  } else if (!circumstances.elsewhere.empty()) {
    out.verdict = Verdict::refused;
    out.note = fmt::format("the device has no {}: the CPU is used instead", fmt::join(circumstances.elsewhere, ", "));
  } else if (circumstances.wanted_kernel && !circumstances.used_kernel) {
    out.verdict = Verdict::refused;
    out.note = "no kernel for this on this processor: plain operations are used instead";
  }
  return out;
}

Result<std::vector<ProbeResult>> examine(Device& device, const std::vector<Probe>& probes, const ExamineOptions& options) {
  return Examination(device, options).run(probes);
}

bool usable(const std::vector<ProbeResult>& results) {
  return std::none_of(results.begin(), results.end(), [](const ProbeResult& r) { return r.outcome.verdict == Verdict::failed; });
}

std::vector<std::string> advice(const std::vector<ProbeResult>& results, const std::string& device) {
  std::set<std::string> kernels, wrong;
  for (const ProbeResult& r : results) {
    if (r.outcome.verdict != Verdict::failed) continue;
    (r.path == "kernels" ? kernels : wrong).insert(r.operation);
  }
  // What is wrong both ways is no reason to switch.
  std::vector<std::string> out, helped;
  std::set_difference(kernels.begin(), kernels.end(), wrong.begin(), wrong.end(), std::back_inserter(helped));
  if (!helped.empty())
    out.push_back(
        fmt::format("{}: the fast kernels for {} are wrong on this processor. Tritium does not switch by itself: set "
                    "TRITIUM_KERNELS=plain, which is slower",
                    device, fmt::join(helped, ", ")));
  if (wrong.empty()) return out;
  const bool vulkan = device.starts_with("Vulkan");
  out.push_back(fmt::format("{}: wrong results, or none, from {}. Do not use this device as it is{}", device, fmt::join(wrong, ", "),
                            device == "CPU" ? "" : ": choose another one with --device"));
  if (vulkan && std::getenv("GGML_VK_DISABLE_F16") == nullptr)
    out.push_back(
        fmt::format("{}: ggml's Vulkan backend may multiply in half precision, whose range and accuracy are not enough for this model. "
                    "Set GGML_VK_DISABLE_F16=1 and look again",
                    device));
  return out;
}

}  // namespace tritium::doctor
