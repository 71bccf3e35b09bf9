#include "cli/common.h"

#include "base/try.h"
#include "pipeline/acceleration.h"
#include "pipeline/memory_table.h"
#include "pipeline/plan_json.h"
#include "pipeline/shape.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstdio>

namespace tritium::cli {
namespace {

// A machine and a form of the released model that need not be here.
struct Imagined {
  std::string preset, devices = "24";
  double host_gib = 128;
  int text_tokens = 300;
  bool table = false;
};

// "int8-pruned": names of presets for an error.
std::string preset_names() {
  std::string out;
  for (const ModelPreset& preset : model_presets()) out += (out.empty() ? "" : ", ") + std::string(preset.name);
  return out;
}

Result<void> print_imagined(const Imagined& o, const Request& request, bool json) {
  const ModelPreset* preset = find_preset(o.preset);
  if (preset == nullptr) return Error{ErrorCode::usage, fmt::format("'{}' is not one of {}", o.preset, preset_names()), "model-preset", ""};
  TRITIUM_TRY_ASSIGN(const Machine machine, parse_machine(o.devices, o.host_gib));
  const MatrixForm form = machine.devices.front().host ? MatrixForm::packed : MatrixForm::blocks;
  MemoryAlternatives alternatives;
  for (const ModelPreset& other : model_presets())
    if (&other != preset) alternatives.models.push_back(released_model_shape(other, form));
  const ModelDefaults defaults;
  Plan sizes;
  TRITIUM_TRY(decide_size(request, defaults, {}, sizes));
  TRITIUM_TRY(decide_length(request, defaults, {}, sizes));
  sizes.steps = static_cast<int>(std::clamp<std::int64_t>(request.steps.value_or(defaults.steps), 1, 1000));
  const ModelShape model = released_model_shape(*preset, form);
  TRITIUM_TRY(decide_acceleration(request, model.dit_config.layers, sizes));
  const RequestShape shape{sizes.width, sizes.height, sizes.frames, sizes.steps, o.text_tokens, 0, 0, 0, false, accelerated_shape(sizes)};
  TRITIUM_TRY_ASSIGN(const MemoryPlan plan, plan_memory(model, shape, machine, {}, [&] { return alternatives; }));
  const std::string text = json ? memory_json(plan.stages, plan.memories).dump(2) + "\n" : memory_text(plan.stages, plan.memories);
  std::printf("%s", text.c_str());
  return {};
}

}  // namespace

Runner add_plan(CLI::App& app) {
  struct Options {
    ModelOptions model;
    RequestOptions request;
    Imagined imagined;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  add_model_options(app, options->model);
  add_request_options(app, options->request);
  app.add_flag("--json", options->json, "Print the plan as JSON");
  // For docs/memory-table.md and for asking about other machines.
  app.add_flag("--table", options->imagined.table)->group("");
  app.add_option("--model-preset", options->imagined.preset)->group("");
  app.add_option("--devices", options->imagined.devices)->group("");
  app.add_option("--host", options->imagined.host_gib)->check(between(0.001, 1e6))->group("");
  app.add_option("--text-tokens", options->imagined.text_tokens)->check(between(1, 262144))->group("");
  return [options] {
    if (options->imagined.table) {
      std::printf("%s", memory_table().c_str());
      return 0;
    }
    if (!options->imagined.preset.empty()) {
      const auto printed = print_imagined(options->imagined, options->request.request, options->json);
      return printed.ok() ? 0 : fail(printed.error());
    }
    const auto request = read_request(options->request);
    if (!request.ok()) return fail(request.error());
    const auto engine = open_engine(options->model, options->json, !request->references.empty());
    if (!engine.ok()) return fail(engine.error());
    const auto plan = (*engine)->plan(*request);
    if (!plan.ok()) return fail(plan.error());
    std::printf("%s\n", options->json ? plan_json(*plan).c_str() : plan_text(*plan).c_str());
    return 0;
  };
}

}  // namespace tritium::cli
