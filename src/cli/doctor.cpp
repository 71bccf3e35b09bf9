#include "base/system.h"
#include "base/try.h"
#include "cli/common.h"
#include "pipeline/doctor_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <set>

namespace tritium::cli {
namespace {

namespace fs = std::filesystem;

// Checks of a device that begin later are left out, unless everything is wanted.
constexpr double kSecondsPerDevice = 25;
// A weight file below this is too small to tell the speed of a disk.
constexpr std::uintmax_t kSmallFile = 64u << 20;

struct Options {
  ModelOptions model;
  std::vector<std::string> devices, only;
  bool full = false, json = false, no_speeds = false;
};

// A backend that meets something it cannot do may end the process. What was being looked at is said then; nothing but plain system calls
// may be used in the handler.
std::array<char, 512> current_check{};

void now_checking(const std::string& what) {
  const std::string text =
      fmt::format("\ntritium: the backend ended the program while it was checked: {}\nthis device is not usable\n", what);
  current_check.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), current_check.size() - 1), current_check.begin());
}

void on_crash(int) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, current_check.data(), std::strlen(current_check.data()));
  _exit(static_cast<int>(ErrorCode::device));
}

class Doctor {
 public:
  explicit Doctor(const Options& options) : options_(options) {}

  Result<DoctorReport> run() {
    TRITIUM_TRY(check_operations());
    TRITIUM_TRY(open_files());
    TRITIUM_TRY_ASSIGN(const std::vector<DeviceInfo> devices, chosen_devices());
    for (const int signal : {SIGABRT, SIGSEGV, SIGILL, SIGFPE}) std::signal(signal, on_crash);
    for (const DeviceInfo& device : devices) {
      DeviceReport report;
      report.device = device;
      const Result<void> done = look_at(report);
      if (!done.ok() && done.error().code == ErrorCode::interrupted) return done.error();
      if (!done.ok()) report.error = done.error().text();
      report_.devices.push_back(std::move(report));
    }
    store();
    return std::move(report_);
  }

 private:
  [[nodiscard]] Result<void> check_operations() const {
    const std::set<std::string> known = doctor::all_operations();
    for (const std::string& name : options_.only)
      if (!known.contains(name))
        return Error{ErrorCode::usage, fmt::format("no check has the operation '{}'; there are {}", name, fmt::join(known, ", ")), "only",
                     ""};
    return {};
  }

  // The model whose time is estimated, and where its weights lie. The built-in demonstration model where none is named.
  Result<void> open_files() {
    TRITIUM_TRY_ASSIGN(ModelSelection selection, parse_model_selection(options_.model.partition, options_.model.qkv_order));
    selection.dit = options_.model.dit;
    selection.text_encoder = options_.model.text_encoder;
    selection.video_vae = options_.model.video_vae;
    selection.audio_vae = options_.model.audio_vae;
    selection.tokenizer = options_.model.tokenizer;
    const bool named = !options_.model.model.empty() || !options_.model.dit.empty();
    TRITIUM_TRY_ASSIGN(const ModelInfo model, open_model(named ? fs::path(options_.model.model) : demo_model(), selection));
    TRITIUM_TRY_ASSIGN(TimedModel timed, timed_model(model, options_.model.compute));
    models_.push_back(std::move(timed));
    for (TimedModel& each : released_timed_models()) models_.push_back(std::move(each));
    weights_ = model.dit->where();
    return {};
  }

  Result<std::vector<DeviceInfo>> chosen_devices() {
    const std::vector<DeviceInfo> all = list_devices();
    std::vector<DeviceInfo> out;
    std::vector<std::string> names;
    for (const DeviceInfo& each : all) names.push_back(each.name);
    if (options_.devices.empty()) out = all;
    for (const std::string& name : options_.devices) {
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

  Result<void> look_at(DeviceReport& report) {
    now_checking(fmt::format("{}, opening it", report.device.name));
    TRITIUM_TRY_ASSIGN(const std::unique_ptr<Device> device, Device::open(report.device.name, options_.model.threads));
    report.threads = device->threads();
    std::vector<doctor::Probe> probes = doctor::all_probes(*device);
    if (!options_.only.empty())
      std::erase_if(probes, [&](const doctor::Probe& p) { return std::ranges::find(options_.only, p.operation) == options_.only.end(); });
    doctor::ExamineOptions examine;
    examine.thorough = options_.full;
    examine.seconds = options_.full ? 0 : kSecondsPerDevice;
    examine.cancel = &interrupt_token();
    examine.progress = [&](int number, int of, const doctor::Probe& probe, const doctor::ProbeResult* result) {
      progress(report.device.name, number, of, probe, result);
    };
    TRITIUM_TRY_ASSIGN(report.results, doctor::examine(*device, probes, examine));
    end_of_line();
    return options_.no_speeds ? Result<void>() : measure(*device, report);
  }

  Result<void> measure(Device& device, DeviceReport& report) {
    std::fprintf(stderr, "%s: measuring speeds\n", report.device.name.c_str());
    now_checking(fmt::format("{}, measuring its speed", report.device.name));
    TRITIUM_TRY_ASSIGN(MeasuredSpeeds speeds, doctor::measure_speeds(device, &interrupt_token()));
    add_disk(speeds);
    for (const TimedModel& model : models_)
      for (const TimedRequest& request : usual_requests()) {
        TRITIUM_TRY_ASSIGN(auto estimate, estimate_time(model, request, speeds));
        if (estimate) report.estimates.push_back(std::move(*estimate));
      }
    report.speeds = std::move(speeds);
    return {};
  }

  // Measured once.
  void add_disk(MeasuredSpeeds& speeds) {
    if (!disk_) {
      std::error_code code;
      const bool large = fs::file_size(weights_, code) >= kSmallFile && !code;
      disk_ = large ? doctor::disk_speed(weights_) : doctor::disk_speed_of_folder(doctor::cache_folder());
      if (!disk_->ok()) report_.notes.push_back("the disk was not measured: " + disk_->error().text());
    }
    if (!disk_->ok()) return;
    speeds.disk = (*disk_)->bytes_per_second;
    speeds.disk_how = (*disk_)->how;
  }

  // Speeds with fewer threads than there are would mislead later plans.
  void store() {
    std::vector<MeasuredSpeeds> all;
    for (const DeviceReport& each : report_.devices)
      if (each.speeds && each.usable()) all.push_back(*each.speeds);
    if (all.empty()) return;
    if (options_.model.threads != 0) return report_.notes.push_back("the speeds were not stored: they belong to --threads");
    const Result<void> stored = doctor::store_speeds(all);
    report_.notes.push_back(stored.ok() ? "speeds stored in '" + doctor::speeds_file().string() + "'"
                                        : "the speeds were not stored: " + stored.error().text());
  }

  void progress(const std::string& device, int number, int of, const doctor::Probe& probe, const doctor::ProbeResult* result) {
    now_checking(fmt::format("{}, {}, {}", device, probe.operation, probe.what));
    if (result != nullptr) return;
    if (terminal_) {
      std::fprintf(stderr, "\r\033[K%s: %d of %d, %s, %s", device.c_str(), number, of, probe.operation.c_str(), probe.what.c_str());
      open_line_ = true;
    } else if (number == 1 || monotonic_seconds() - last_ > 5) {
      std::fprintf(stderr, "%s: check %d of %d\n", device.c_str(), number, of);
      last_ = monotonic_seconds();
    }
  }
  void end_of_line() {
    if (open_line_) std::fputs("\r\033[K", stderr);
    open_line_ = false;
  }

  const Options& options_;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool open_line_ = false;
  double last_ = 0;
  std::vector<TimedModel> models_;
  fs::path weights_;
  std::optional<Result<doctor::DiskSpeed>> disk_;
  DoctorReport report_;
};

}  // namespace

Runner add_doctor(CLI::App& app) {
  auto options = std::make_shared<Options>();
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
    const auto report = Doctor(*options).run();
    if (!report.ok()) return fail(report.error());
    std::fputs((options->json ? doctor_json(*report) + "\n" : doctor_text(*report)).c_str(), stdout);
    return report->usable() ? 0 : static_cast<int>(ErrorCode::device);
  };
}

}  // namespace tritium::cli
