#include "cli/doctor_device.h"

#include "base/files.h"
#include "base/system.h"
#include "base/try.h"
#include "pipeline/parts.h"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace tritium::cli {
namespace {

namespace fs = std::filesystem;

// Checks that would begin later are left out, unless everything is wanted.
constexpr double kSecondsPerDevice = 25;
// A weight file below this is too small to tell the speed of a disk.
constexpr std::uintmax_t kSmallFile = 64u << 20;

// A backend that meets something it cannot do may end the process. What was being looked at is said then; nothing but plain system calls
// may be used in the handler.
std::array<char, 512> current_check{};

void now_checking(const std::string& what) {
  const std::string text = fmt::format("\ntritium: the backend ended the program during this check: {}\n", what);
  current_check.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), current_check.size() - 1), current_check.begin());
}

void on_crash(int) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, current_check.data(), std::strlen(current_check.data()));
  _exit(static_cast<int>(ErrorCode::device));
}

class Examiner {
 public:
  Examiner(const DeviceInfo& device, const DoctorOptions& options, const DoctorModels& models, std::function<void(const std::string&)> line)
      : options_(options), models_(models), line_(std::move(line)) {
    device_.device = device;
  }

  Result<DoctorReport> run() {
    for (const int signal : {SIGABRT, SIGSEGV, SIGILL, SIGFPE}) std::signal(signal, on_crash);
    const Result<void> done = look_at();
    if (!done.ok() && done.error().code == ErrorCode::interrupted) return done.error();
    if (!done.ok()) device_.error = done.error().text();
    store();
    report_.devices.push_back(std::move(device_));
    return std::move(report_);
  }

 private:
  Result<void> look_at() {
    const std::string& name = device_.device.name;
    now_checking(name + ", opening it");
    TRITIUM_TRY_ASSIGN(const std::unique_ptr<Device> device, Device::open(name, options_.model.threads));
    device_.threads = device->threads();
    std::vector<doctor::Probe> probes = doctor::all_probes(*device);
    const std::vector<std::string>& only = options_.only;
    if (!only.empty())
      std::erase_if(probes, [&](const doctor::Probe& p) { return std::find(only.begin(), only.end(), p.operation) == only.end(); });
    for (const doctor::Probe& probe : probes) width_ = std::max(width_, probe.what.size());
    line_(doctor_heading(device_, width_));
    doctor::ExamineOptions examine;
    examine.thorough = options_.full;
    examine.seconds = options_.full ? 0 : kSecondsPerDevice;
    examine.cancel = &interrupt_token();
    examine.progress = [&](int number, int of, const doctor::Probe& probe, const doctor::ProbeResult* result) {
      if (result != nullptr) return line_(doctor_line(device_, *result, width_));
      now_checking(fmt::format("{}, {}, {}", name, probe.operation, probe.what));
      if (number > 1 && monotonic_seconds() - told_ < 5) return;
      std::fprintf(stderr, "%s: check %d of %d\n", name.c_str(), number, of);
      told_ = monotonic_seconds();
    };
    TRITIUM_TRY_ASSIGN(device_.results, doctor::examine(*device, probes, examine));
    return options_.no_speeds ? Result<void>() : measure(*device);
  }

  Result<void> measure(Device& device) {
    std::fprintf(stderr, "%s: measuring speeds\n", device_.device.name.c_str());
    now_checking(device_.device.name + ", measuring its speed");
    TRITIUM_TRY_ASSIGN(MeasuredSpeeds speeds, doctor::measure_speeds(device, &interrupt_token()));
    add_disk(speeds);
    for (const ModelShape& model : models_.shapes)
      for (const RequestShape& request : usual_requests()) {
        TRITIUM_TRY_ASSIGN(auto estimate, estimate_time(model, request, speeds));
        if (estimate) device_.estimates.push_back(std::move(*estimate));
      }
    device_.speeds = std::move(speeds);
    return {};
  }

  void add_disk(MeasuredSpeeds& speeds) {
    std::error_code code;
    const bool large = fs::file_size(models_.weights, code) >= kSmallFile && !code;
    const auto disk = large ? doctor::disk_speed(models_.weights) : doctor::disk_speed_of_folder(cache_folder());
    if (!disk.ok()) return report_.notes.push_back("the disk was not measured: " + disk.error().text());
    speeds.disk = disk->bytes_per_second;
    speeds.disk_how = disk->how;
  }

  void store() {
    if (!device_.speeds || !device_.usable()) return;
    // Speeds with fewer threads than there are would mislead later plans.
    if (options_.model.threads != 0) {
      report_.notes.emplace_back("the speeds were not stored: they belong to --threads");
      return;
    }
    const Result<void> stored = doctor::store_speeds({*device_.speeds});
    report_.notes.push_back(stored.ok() ? "speeds stored in '" + doctor::speeds_file().string() + "'"
                                        : "the speeds were not stored: " + stored.error().text());
  }

  const DoctorOptions& options_;
  const DoctorModels& models_;
  std::function<void(const std::string&)> line_;
  std::size_t width_ = 4;
  double told_ = 0;
  DeviceReport device_;
  DoctorReport report_;
};

}  // namespace

Result<DoctorModels> doctor_models(const ModelOptions& options) {
  TRITIUM_TRY_ASSIGN(ModelSelection selection, parse_model_selection(options.partition, options.qkv_order));
  selection.dit = options.dit;
  selection.text_encoder = options.text_encoder;
  selection.video_vae = options.video_vae;
  selection.audio_vae = options.audio_vae;
  selection.tokenizer = options.tokenizer;
  const bool named = !options.model.empty() || !options.dit.empty();
  TRITIUM_TRY_ASSIGN(const ModelInfo model, open_model(named ? fs::path(options.model) : demo_model(), selection));
  TRITIUM_TRY_ASSIGN(const StageWeights weights, stage_weights(model, options.compute));
  DoctorModels out;
  out.shapes.push_back(model_shape(model, {{}, weights.text, weights.dit, weights.video, weights.audio}));
  for (const char* preset : {"bf16", "int8-pruned"})
    if (const ModelPreset* found = find_preset(preset)) {
      out.shapes.push_back(released_model_shape(*found, MatrixForm::packed));
      out.shapes.back().name = fmt::format("released, {}", found->title);
    }
  out.weights = model.dit->where();
  return out;
}

Result<DoctorReport> examine_device(const DeviceInfo& device, const DoctorOptions& options, const DoctorModels& models,
                                    const std::function<void(const std::string&)>& line) {
  return Examiner(device, options, models, line).run();
}

}  // namespace tritium::cli
