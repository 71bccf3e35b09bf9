#include "base/try.h"
#include "cli/doctor_device.h"
#include "cli/own_process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <strings.h>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tritium::cli {
namespace {

constexpr std::string_view kNotUsable = " is NOT usable as it is";

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

Result<void> check_operations(const DoctorOptions& options) {
  const std::set<std::string> known = doctor::all_operations();
  for (const std::string& name : options.only)
    if (!known.contains(name))
      return Error{ErrorCode::usage, fmt::format("no check has the operation '{}'; there are {}", name, fmt::join(known, ", ")), "only",
                   ""};
  return {};
}

Result<std::vector<DeviceInfo>> chosen_devices(const DoctorOptions& options) {
  const std::vector<DeviceInfo> all = list_devices();
  std::vector<DeviceInfo> out;
  std::vector<std::string> names(all.size());
  std::transform(all.begin(), all.end(), names.begin(), [](const DeviceInfo& d) { return d.name; });
  if (options.devices.empty()) out = all;
  for (const std::string& name : options.devices) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const DeviceInfo& d) { return strcasecmp(d.name.c_str(), name.c_str()) == 0; });
    if (found == all.end())
      return Error{ErrorCode::device, fmt::format("there is no device '{}'; available: {}", name, fmt::join(names, ", ")), "device",
                   "see 'tritium devices'"};
    out.push_back(*found);
  }
  if (out.empty()) return Error{ErrorCode::device, "no compute device was found", "", "install the ggml package with its CPU backend"};
  return out;
}

// This command for one device alone.
std::vector<std::string> arguments_for(const std::string& device, const DoctorOptions& o) {
  std::vector<std::string> out = {"doctor", "--device", device};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) out.insert(out.end(), {option, value});
  };
  add("--model", o.model.model);
  add("--dit", o.model.dit);
  add("--text-encoder", o.model.text_encoder);
  add("--video-vae", o.model.video_vae);
  add("--audio-vae", o.model.audio_vae);
  add("--tokenizer", o.model.tokenizer);
  add("--partition", o.model.partition);
  add("--qkv-order", o.model.qkv_order);
  for (const std::string& name : o.only) add("--only", name);
  add("--threads", std::to_string(o.model.threads));
  if (o.full) out.emplace_back("--full");
  if (o.no_speeds) out.emplace_back("--no-speeds");
  if (o.json) out.emplace_back("--json");
  return out;
}

// Every device in a process of its own, so that one whose backend ends the process does not hide the others.
Result<bool> examine_each(const std::vector<DeviceInfo>& devices, const DoctorOptions& options) {
  nlohmann::ordered_json report{{"usable", true}, {"devices", nlohmann::ordered_json::array()}, {"notes", nlohmann::ordered_json::array()}};
  bool usable = true;
  for (const DeviceInfo& device : devices) {
    std::string output;
    const auto take = [&](const std::string& piece) {
      output += piece;
      if (!options.json) print(piece);
    };
    TRITIUM_TRY_ASSIGN(const ProcessEnd end, run_own_program(arguments_for(device.name, options), take, interrupt_token()));
    TRITIUM_TRY(interrupt_token().check("the examination"));
    usable = usable && end.status == 0;
    const auto found = options.json ? nlohmann::ordered_json::parse(output, nullptr, false) : nlohmann::ordered_json();
    if (found.is_object()) {
      for (const auto& each : found["devices"]) report["devices"].push_back(each);
      for (const auto& each : found["notes"]) report["notes"].push_back(each);
    } else if (options.json || (end.status != 0 && output.find(kNotUsable) == std::string::npos)) {
      const std::string what = end.signal != 0 ? fmt::format("its process was ended by signal {}", end.signal)
                                               : "its process ended early; standard error says during which check";
      report["devices"].push_back({{"name", device.name}, {"usable", false}, {"error", what}});
      if (!options.json) print(fmt::format("{}: {}\n{}{}\n", device.name, what, device.name, kNotUsable));
    }
    if (!options.json) print("\n");
  }
  report["usable"] = usable;
  if (options.json) print(report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  return usable;
}

Result<bool> run(const DoctorOptions& options) {
  TRITIUM_TRY(check_operations(options));
  TRITIUM_TRY_ASSIGN(const DoctorModels models, doctor_models(options.model));
  TRITIUM_TRY_ASSIGN(const std::vector<DeviceInfo> devices, chosen_devices(options));
  if (devices.size() > 1) return examine_each(devices, options);
  const auto line = [&](const std::string& text) {
    if (!options.json) print(text);
  };
  TRITIUM_TRY_ASSIGN(const DoctorReport report, examine_device(devices.front(), options, models, line));
  if (options.json) {
    print(doctor_json(report) + "\n");
  } else {
    print(doctor_summary(report.devices.front()));
    for (const std::string& note : report.notes) print(note + "\n");
  }
  return report.usable();
}

}  // namespace

Runner add_doctor(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  add_model_files_options(app, options->model);
  app.add_option("--device", options->devices, "Look at this device only; may be repeated")->check(not_empty())->delimiter(',');
  app.add_option("--only", options->only, "Check these operations only: linear, attention, ...")->check(not_empty())->delimiter(',');
  app.add_option("--threads", options->model.threads, "CPU threads; 0 = all usable processors")
      ->check(between(0, 4096))
      ->envname("TRITIUM_THREADS");
  app.add_flag("--full", options->full, "Every check, however long it takes, also without the fast kernels");
  app.add_flag("--no-speeds", options->no_speeds, "Measure no speeds and estimate no times");
  app.add_flag("--json", options->json, "Print as JSON");
  return [options] {
    const auto usable = run(*options);
    if (!usable.ok()) return fail(usable.error());
    return *usable ? 0 : static_cast<int>(ErrorCode::device);
  };
}

}  // namespace tritium::cli
