#include "cli/common.h"
#include "cli/progress_bar.h"

#include "base/try.h"
#include "device/device.h"
#include "pipeline/placement.h"

#include <fmt/format.h>
#include <strings.h>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tritium::cli {
namespace fs = std::filesystem;
namespace {

struct GenerateOptions {
  ModelOptions model;
  RequestOptions request;
  std::string output, frames_dir, wav, latents, checkpoint, progress = "auto", isolate = "auto";
  int checkpoint_steps = 5;
  bool json = false;
};

// A name that is not taken, so that a run without -o never replaces a result.
fs::path free_name() {
  std::error_code ignored;
  for (int i = 1;; ++i) {
    const fs::path name = i == 1 ? "tritium.mp4" : fmt::format("tritium-{}.mp4", i);
    if (!fs::exists(name, ignored)) return name;
  }
}

// Drivers of devices can bring down a process; on the CPU that has not been seen, and a process more costs a little. A placement that is
// wrong is refused without a worker as well.
bool isolates(const GenerateOptions& o) {
  if (o.isolate != "auto") return o.isolate == "on";
  const auto placement = parse_placement(o.model.device);
  if (!placement.ok()) return false;
  const auto is_cpu = [](const std::string& name) { return strcasecmp(name.substr(0, name.find('#')).c_str(), "CPU") == 0; };
  const std::vector<std::string> devices = placement->devices();
  return devices.empty() ? !only_cpu_devices() : !std::all_of(devices.begin(), devices.end(), is_cpu);
}

void print_notes(const Plan& plan) {
  for (const Adjustment& a : plan.adjustments)
    std::fprintf(stderr, "note: %s\n", fmt::format("{} {} -> {} ({})", a.field, a.from, a.to, a.reason).c_str());
  for (const std::string& n : plan.notes) std::fprintf(stderr, "note: %s\n", n.c_str());
  for (const std::string& w : plan.warnings) std::fprintf(stderr, "warning: %s\n", w.c_str());
}

void print_result(const Artifact& artifact, bool json) {
  if (!json) {
    std::printf("%s\n", artifact.video.c_str());
    return;
  }
  nlohmann::ordered_json out{{"video", artifact.video.string()}, {"sidecar", artifact.sidecar.string()}};
  out["plan"] = nlohmann::ordered_json::parse(plan_json(artifact.plan));
  for (const StageTiming& t : artifact.timings) out["timings"][t.stage] = t.seconds;
  out["warnings"] = artifact.warnings;
  std::printf("%s\n", out.dump(2).c_str());
}

Result<Artifact> generate(const GenerateOptions& o) {
  TRITIUM_TRY_ASSIGN(const Request request, read_request(o.request));
  if (!o.checkpoint.empty() && !request.seed)
    return Error{ErrorCode::usage, "a run can only be taken up with the seed it was begun with", "checkpoint", "give one with --seed"};
  CancelToken& cancel = interrupt_token();  // not earlier: a signal while the prompt is typed simply ends the program
  TRITIUM_TRY_ASSIGN(const auto engine, open_engine(o.model, o.json, !request.references.empty(), isolates(o)));
  OutputOptions output{o.output.empty() ? free_name() : fs::path(o.output), o.frames_dir, o.wav, o.latents};
  output.checkpoint = o.checkpoint;
  output.checkpoint_steps = o.checkpoint_steps;
  ProgressPrinter printer(progress_style(o.progress));
  auto artifact = engine->generate(request, output, {print_notes, [&printer](const Progress& p) { printer(p); }}, &cancel);
  printer.finish();
  return artifact;
}

}  // namespace

Runner add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  add_model_options(app, options->model);
  add_request_options(app, options->request);
  app.add_option("-o,--output", options->output, "The video, NAME.mp4; a free name in this folder when absent")->check(not_empty());
  app.add_option("--frames-dir", options->frames_dir, "Also write the frames as PNG into this folder")->check(not_empty());
  app.add_option("--wav", options->wav, "Also write the sound as WAV")->check(not_empty());
  app.add_option("--latents", options->latents, "Also write the final latents as safetensors")->check(not_empty());
  app.add_option("--checkpoint", options->checkpoint, "Keep the state of the run in this folder, and go on from what is there")
      ->check(not_empty());
  app.add_option("--checkpoint-steps", options->checkpoint_steps, "Evaluations between two states; 0: none between the first and the last")
      ->check(between(0, 1000));
  app.add_option("--progress", options->progress, "auto, bar, lines, json or none")
      ->check(CLI::IsMember({"auto", "bar", "lines", "json", "none"}));
  app.add_option("--isolate", options->isolate, "Compute in a process of its own: on, off, or auto = for every device but the CPU")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->envname("TRITIUM_ISOLATE");
  app.add_flag("--json", options->json, "Print the result as JSON");
  return [options] {
    const auto artifact = generate(*options);
    if (!artifact.ok()) return fail(artifact.error());
    for (const std::string& w : artifact->warnings) std::fprintf(stderr, "warning: %s\n", w.c_str());
    print_result(*artifact, options->json);
    return 0;
  };
}

}  // namespace tritium::cli
