#include "pipeline/doctor_report.h"

#include "base/system.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

using doctor::ProbeResult;
using doctor::Verdict;
using nlohmann::ordered_json;

constexpr std::array kVerdicts = {Verdict::ok, Verdict::refused, Verdict::failed, Verdict::left_out};

std::string counts(const std::vector<ProbeResult>& results) {
  std::string out = fmt::format("{} checks:", results.size());
  for (const Verdict verdict : kVerdicts) {
    const auto count = std::count_if(results.begin(), results.end(), [&](const ProbeResult& r) { return r.outcome.verdict == verdict; });
    out += fmt::format(" {} {},", count, doctor::verdict_name(verdict));
  }
  out.back() = '\n';
  return out;
}

std::string rate(double operations) { return operations > 0 ? fmt::format("{:.0f} GFLOP/s", operations * 1e-9) : "not measured"; }
std::string bandwidth(double bytes) { return bytes > 0 ? fmt::format("{:.2f} GB/s", bytes * 1e-9) : "not measured"; }

std::string speeds_text(const MeasuredSpeeds& s) {
  const auto products = [&s](ProductKind kind) { return rate(s.of(kind).operations); };
  std::string out =
      fmt::format("products: {} in f32, {} in bf16, {} with int8 matrices decoded, {} of int8 integers\n", products(ProductKind::f32),
                  products(ProductKind::bf16), products(ProductKind::decoded), products(ProductKind::int8));
  out += fmt::format("attention: {} in f32, {} in bf16; convolutions of sound: {}\n", rate(s.attention), rate(s.narrow_attention),
                     products(ProductKind::sound));
  out += fmt::format("memory: {} copied on the host, {} to the device; disk: {}", bandwidth(s.host_copy), bandwidth(s.upload),
                     bandwidth(s.disk));
  if (!s.disk_how.empty()) out += fmt::format(" ({})", s.disk_how);
  return out + "\n";
}

std::string duration(double seconds) {
  if (seconds < 1) return fmt::format("{:.2f} s", seconds);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.0f} days", seconds / 86400);
}

std::string estimates_text(const std::vector<TimeEstimate>& estimates) {
  if (estimates.empty()) return "";
  std::string out = fmt::format("estimates, all weights in memory, {} tokens of text; 'reading' is once for any number of requests\n",
                                estimates.front().request.text_tokens);
  out += fmt::format("{:<22} {:>8} {:>6} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "model", "size", "frames", "steps", "reading",
                     "text", "a step", "denoise", "decode", "request");
  for (const TimeEstimate& e : estimates) {
    const auto seconds = [&](const char* name) {
      const auto stage = std::find_if(e.stages.begin(), e.stages.end(), [&](const StageTime& s) { return s.name == name; });
      return stage != e.stages.end() ? stage->compute_seconds : 0;
    };
    out += fmt::format("{:<22} {:>8} {:>6} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", e.model,
                       fmt::format("{}x{}", e.request.width, e.request.height), e.request.frames, e.request.steps, duration(e.read_seconds),
                       duration(seconds("text")), duration(seconds("denoise") / e.request.steps), duration(seconds("denoise")),
                       duration(seconds("video") + seconds("audio")), duration(e.compute_seconds));
  }
  return out;
}

// JSON has no infinity.
ordered_json number(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

ordered_json to_json(const ProbeResult& r) {
  const doctor::Outcome& o = r.outcome;
  ordered_json out{{"operation", r.operation}, {"what", r.what}, {"verdict", doctor::verdict_name(o.verdict)}};
  if (!r.path.empty()) out["path"] = r.path;
  if (o.tolerance > 0) {
    out["error"] = number(o.error);
    out["tolerance"] = o.tolerance;
  }
  out["seconds"] = o.seconds;
  if (!o.note.empty()) out["note"] = o.note;
  return out;
}

ordered_json to_json(const MeasuredSpeeds& s) {
  constexpr std::pair<const char*, ProductKind> kKinds[] = {{"f32", ProductKind::f32},
                                                            {"bf16", ProductKind::bf16},
                                                            {"int8", ProductKind::decoded},
                                                            {"int8_products", ProductKind::int8},
                                                            {"sound", ProductKind::sound}};
  ordered_json out;
  for (const auto& [name, kind] : kKinds) out[name] = s.of(kind).operations;
  for (const auto& [name, kind] : kKinds)
    if (s.of(kind).values > 0) out[name + std::string("_values")] = s.of(kind).values;
  const ordered_json rest{{"attention", s.attention}, {"attention_bf16", s.narrow_attention},
                          {"host_copy", s.host_copy}, {"upload", s.upload},
                          {"disk", s.disk},           {"disk_how", s.disk_how},
                          {"threads", s.threads},     {"measured", s.measured}};
  out.update(rest);
  return out;
}

ordered_json to_json(const TimeEstimate& e) {
  ordered_json out{{"model", e.model},
                   {"width", e.request.width},
                   {"height", e.request.height},
                   {"frames", e.request.frames},
                   {"steps", e.request.steps},
                   {"text_tokens", e.request.text_tokens},
                   {"rows", e.rows},
                   {"read_seconds", e.read_seconds},
                   {"compute_seconds", e.compute_seconds},
                   {"stages", ordered_json::array()}};
  for (const StageTime& s : e.stages)
    out["stages"].push_back({{"stage", s.name},
                             {"flops", s.flops},
                             {"attention_flops", s.attention_flops},
                             {"read_seconds", s.read_seconds},
                             {"compute_seconds", s.compute_seconds}});
  return out;
}

}  // namespace

bool DoctorReport::usable() const {
  return std::all_of(devices.begin(), devices.end(), [](const DeviceReport& d) { return d.usable(); });
}

std::string doctor_heading(const DeviceReport& report, std::size_t width) {
  const DeviceInfo& d = report.device;
  return fmt::format("{}: {}, {}, {} free of {}\n{:<9} {:<8} {:<17} {:<{}} {:<8} {:>18} {:>8}\n", d.name, d.description, d.kind,
                     format_bytes(d.memory_free), format_bytes(d.memory_total), "verdict", "device", "operation", "what", width, "path",
                     "error", "time");
}

std::string doctor_line(const DeviceReport& report, const ProbeResult& r, std::size_t width) {
  const doctor::Outcome& o = r.outcome;
  const std::string measured = o.tolerance > 0 ? fmt::format("{:.1e} of {:.1e}", o.error, o.tolerance) : "-";
  std::string out = fmt::format("{:<9} {:<8} {:<17} {:<{}} {:<8} {:>18} {:>6.2f} s", doctor::verdict_name(o.verdict), report.device.name,
                                r.operation, r.what, width, r.path, measured, o.seconds);
  if (!o.note.empty()) out += fmt::format("\n{:<9} {}", "", o.note);
  return out + "\n";
}

std::string doctor_summary(const DeviceReport& report) {
  const std::string& name = report.device.name;
  std::string out = counts(report.results);
  if (report.speeds) out += speeds_text(*report.speeds);
  out += estimates_text(report.estimates);
  if (!report.error.empty()) out += fmt::format("{}: {}\n", name, report.error);
  for (const std::string& line_of_advice : doctor::advice(report.results, name)) out += line_of_advice + "\n";
  return out + fmt::format("{} is {}\n", name, report.usable() ? "usable" : "NOT usable as it is");
}

std::string doctor_text(const DoctorReport& report) {
  std::string out;
  for (const DeviceReport& device : report.devices) {
    std::size_t width = 4;
    for (const ProbeResult& r : device.results) width = std::max(width, r.what.size());
    if (!out.empty()) out += "\n";
    out += doctor_heading(device, width);
    for (const ProbeResult& r : device.results) out += doctor_line(device, r, width);
    out += doctor_summary(device);
  }
  for (const std::string& note : report.notes) out += note + "\n";
  return out;
}

std::string doctor_json(const DoctorReport& report) {
  ordered_json out{{"usable", report.usable()}, {"devices", ordered_json::array()}};
  for (const DeviceReport& device : report.devices) {
    ordered_json one{{"name", device.device.name},
                     {"kind", device.device.kind},
                     {"description", device.device.description},
                     {"memory_total", device.device.memory_total},
                     {"memory_free", device.device.memory_free},
                     {"threads", device.threads},
                     {"usable", device.usable()}};
    if (!device.error.empty()) one["error"] = device.error;
    one["checks"] = ordered_json::array();
    for (const ProbeResult& r : device.results) one["checks"].push_back(to_json(r));
    if (device.speeds) one["speeds"] = to_json(*device.speeds);
    one["estimates"] = ordered_json::array();
    for (const TimeEstimate& e : device.estimates) one["estimates"].push_back(to_json(e));
    one["advice"] = doctor::advice(device.results, device.device.name);
    out["devices"].push_back(std::move(one));
  }
  out["notes"] = report.notes;
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace tritium
