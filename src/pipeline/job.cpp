#include "pipeline/job.h"

#include "base/try.h"
#include "pipeline/cost_inputs.h"

#include <algorithm>
#include <random>

namespace tritium {

Result<PreparedRequest> JobPlanner::prepare(const Request& request, const CancelToken* cancel) const {
  PreparedRequest job;
  TRITIUM_TRY_ASSIGN(const Mode mode, decide_mode(request));
  TRITIUM_TRY(check_partition(mode, model_.partition));
  TRITIUM_TRY_ASSIGN(job.loras, open_loras(request, model_, cancel));
  TRITIUM_TRY_ASSIGN(job.inputs, open_inputs(request, mode, model_.defaults, cancel));
  TRITIUM_TRY_ASSIGN(PlanInputs in, plan_inputs(job.inputs));
  std::vector<Adjustment> contracts;
  apply_contracts(job.loras, request, in.defaults, contracts);
  const std::uint64_t seed = std::random_device{}();
  if (mode != Mode::t2va) {
    // The pictures need the canvas before the prompt around them is known.
    TRITIUM_TRY(describe_memory(job, in));
    TRITIUM_TRY_ASSIGN(const Plan shape, make_plan(request, in, seed));
    TRITIUM_TRY(fit_inputs(job.inputs, request, shape, cancel));
    in.condition_rows = condition_shapes(job.inputs, model_).rows(shape.latent_height, shape.latent_width);
  }
  TRITIUM_TRY_ASSIGN(job.prompt, prepare_prompt(tokenizer_, model_, request.prompt, job.inputs));
  in.text_tokens = static_cast<int>(job.prompt.presentation.ids.size());
  TRITIUM_TRY(add_input_costs(job, in));
  TRITIUM_TRY(describe_memory(job, in));
  TRITIUM_TRY_ASSIGN(job.plan, make_plan(request, in, seed));
  job.plan.adjustments.insert(job.plan.adjustments.end(), contracts.begin(), contracts.end());
  describe_loras(job.loras, job.plan);
  const auto& warnings = job.prompt.presentation.warnings;
  job.plan.warnings.insert(job.plan.warnings.end(), warnings.begin(), warnings.end());
  return job;
}

Result<PlanInputs> JobPlanner::plan_inputs(const Inputs& inputs) const {
  PlanInputs in;
  in.defaults = model_.defaults;
  in.text = model_.text_config;
  in.dit = model_.dit_config;
  in.video_vae = model_.video_vae_config;
  in.audio_vae = model_.audio_vae_config;
  in.mode = inputs.mode;
  in.picture = inputs.picture;
  in.clip_frames = inputs.frames;
  return in;
}

Result<PlanInputs::Weights> JobPlanner::input_weights(const Inputs& inputs, MatrixForm form) const {
  PlanInputs::Weights out;
  for (const Part part : encoders_for(inputs)) {
    TRITIUM_TRY_ASSIGN(const PlanInputs::Weights weights, parts_.weights(part, form));
    out.bytes += weights.bytes;
    if (weights.precision != MatrixPrecision::f32) out.precision = weights.precision;
  }
  return out;
}

Result<void> JobPlanner::add_input_costs(const PreparedRequest& job, PlanInputs& in) const {
  if (in.mode == Mode::t2va) return {};
  const StageCost cost = inputs_cost(job.inputs, job.prompt, model_);
  in.input_flops = cost.flops;
  in.input_working_bytes = cost.working_bytes;
  return {};
}

Result<ModelShape> JobPlanner::shape_of(const PreparedRequest& job, MatrixForm form) const {
  PartWeights weights;
  TRITIUM_TRY_ASSIGN(weights.inputs, input_weights(job.inputs, form));
  TRITIUM_TRY_ASSIGN(weights.text, parts_.weights(Part::text, form));
  TRITIUM_TRY_ASSIGN(weights.dit, parts_.weights(Part::dit, form));
  TRITIUM_TRY_ASSIGN(weights.video, parts_.weights(Part::video_decoder, form));
  TRITIUM_TRY_ASSIGN(weights.audio, parts_.weights(Part::audio_decoder, form));
  ModelShape out = model_shape(model_, weights);
  out.dit.other.resident += lora_bytes(job.loras);
  return out;
}

Result<void> JobPlanner::describe_memory(const PreparedRequest& job, PlanInputs& in) const {
  TRITIUM_TRY_ASSIGN(Machine machine, describe_machine(machine_, devices_, parts_));
  in.device = machine.devices.front().name;
  in.available_bytes = machine.host_budget;
  const auto host = [](const MachineDevice& device) { return device.host; };
  // Plain kernels on the CPU keep matrices as other devices do.
  const MatrixForm on_host = host_form();
  TRITIUM_TRY_ASSIGN(ModelShape shape, shape_of(job, on_host));
  if (on_host != MatrixForm::blocks && !std::all_of(machine.devices.begin(), machine.devices.end(), host)) {
    TRITIUM_TRY_ASSIGN(ModelShape on_devices, shape_of(job, MatrixForm::blocks));
    shape.on_devices = std::make_shared<const ModelShape>(std::move(on_devices));
  }
  in.machine = std::make_shared<const Machine>(std::move(machine));
  in.alternatives = [this, known = in.machine, dit = in.dit] { return find_alternatives(machine_, *known, dit); };
  in.shape = std::make_shared<const ModelShape>(std::move(shape));
  return {};
}

}  // namespace tritium
