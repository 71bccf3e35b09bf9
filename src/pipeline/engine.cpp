#include <tritium/engine.h>

#include "base/system.h"
#include "base/try.h"
#include "pipeline/conditions.h"
#include "pipeline/cost_inputs.h"
#include "pipeline/lora.h"
#include "pipeline/memory_budget.h"
#include "pipeline/memory_table.h"
#include "pipeline/model_json.h"
#include "pipeline/parts.h"
#include "pipeline/progress.h"
#include "pipeline/publish.h"
#include "pipeline/stages.h"
#include "pipeline/tensor_dump.h"

#include <fmt/format.h>
#include <algorithm>
#include <random>

namespace tritium {
namespace {

class LocalEngine final : public Engine {
 public:
  LocalEngine(ModelInfo model, Tokenizer tokenizer, std::unique_ptr<Device> device, std::string compute, MemoryBudgets budgets)
      : model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        device_(std::move(device)),
        parts_(model_, *device_, std::move(compute)),
        budgets_(std::move(budgets)) {}

  Result<Plan> plan(const Request& request) override {
    TRITIUM_TRY_ASSIGN(const Job job, prepare(request, nullptr));
    return job.plan;
  }

  using Engine::generate;
  Result<Artifact> generate(const Request& request, const OutputOptions& output, const GenerateHooks& hooks,
                            const CancelToken* cancel) override {
    TRITIUM_TRY_ASSIGN(Job job, prepare(request, cancel));
    const Plan& plan = job.plan;
    if (hooks.plan) hooks.plan(plan);
    TRITIUM_TRY_ASSIGN(AtomicFile reserved, reserve_output(output, plan));

    ProgressTracker tracker(expected_stages(plan), hooks.progress);
    const StepProgress step = [&tracker](int done, int of) { tracker.report(done, of); };
    tracker.begin("load");
    TRITIUM_TRY(parts_.load(parts_for(job.inputs), cancel, step));
    TRITIUM_TRY(loras_.use(parts_.dit(), job.loras, cancel));
    if (fingerprints_.empty()) { TRITIUM_TRY_ASSIGN(fingerprints_, weight_fingerprints(model_, cancel)); }
    Conditioning conditioning;
    if (job.inputs.mode != Mode::t2va) {
      tracker.begin("inputs");
      TRITIUM_TRY(encode_inputs(parts_, model_, job.inputs, request, plan, conditioning, cancel, step));
    }
    tracker.begin("text");
    TRITIUM_TRY(encode_prompt(parts_, job.prompt, conditioning, cancel, step));
    tracker.begin("denoise");
    TRITIUM_TRY_ASSIGN(Latents noise, initial_noise(plan));
    TRITIUM_TRY_ASSIGN(const Latents latents, denoise(parts_.dit(), plan, conditioning, std::move(noise), cancel, step));
    Clip clip;
    tracker.begin("video");
    TRITIUM_TRY(decode_video(parts_.video_decoder(), plan, latents, clip, cancel, step));
    tracker.begin("audio");
    TRITIUM_TRY(decode_audio(parts_.audio_decoder(), plan, latents, clip, cancel, step));
    // Weights may lie in the files themselves: what was written over meanwhile may have got into the result.
    for (const auto& part : {model_.text, model_.dit, model_.video_vae, model_.audio_vae})
      TRITIUM_TRY(part->checkpoint().check_unchanged());
    tracker.begin("write");
    const GuardReport guard = inspect_clip(clip, {plan.frames, plan.width, plan.height, plan.samples});
    Artifact artifact{output.video, sidecar_of(output.video), plan, {}, guard.warnings};
    const std::string metadata = metadata_json({request, plan, model_, fingerprints_, tracker.timings(), guard, device_->threads()});
    TRITIUM_TRY(publish(std::move(reserved), output, plan, clip, latents, guard, metadata, cancel, step));
    tracker.finish();
    artifact.timings = tracker.timings();
    return artifact;
  }

  [[nodiscard]] std::string model_json() const override { return describe_model_json(model_); }
  [[nodiscard]] std::string model_text() const override { return describe_model_text(model_); }

 private:
  // A request with its files read and everything decided.
  struct Job {
    Plan plan;
    Inputs inputs;
    PromptInputs prompt;
    std::vector<ChosenLora> loras;
  };

  Result<Job> prepare(const Request& request, const CancelToken* cancel) const {
    Job job;
    TRITIUM_TRY_ASSIGN(const Mode mode, decide_mode(request));
    TRITIUM_TRY(check_partition(mode, model_.partition));
    TRITIUM_TRY_ASSIGN(job.loras, open_loras(request, model_, cancel));
    TRITIUM_TRY_ASSIGN(job.inputs, open_inputs(request, mode, model_.defaults, cancel));
    TRITIUM_TRY_ASSIGN(PlanInputs in, plan_inputs(job.inputs));
    std::vector<Adjustment> contracts;
    apply_contracts(job.loras, request, in.defaults, contracts);
    in.dit_weights.bytes += lora_bytes(job.loras);
    const std::uint64_t seed = std::random_device{}();
    if (mode != Mode::t2va) {
      // The pictures need the canvas before the prompt around them is known.
      describe_memory(in);
      TRITIUM_TRY_ASSIGN(const Plan shape, make_plan(request, in, seed));
      TRITIUM_TRY(fit_inputs(job.inputs, request, shape, cancel));
      in.condition_rows = condition_shapes(job.inputs, model_).rows(shape.latent_height, shape.latent_width);
    }
    TRITIUM_TRY_ASSIGN(job.prompt, prepare_prompt(tokenizer_, model_, request.prompt, job.inputs));
    in.text_tokens = static_cast<int>(job.prompt.presentation.ids.size());
    TRITIUM_TRY(add_input_costs(job, in));
    describe_memory(in);
    TRITIUM_TRY_ASSIGN(job.plan, make_plan(request, in, seed));
    job.plan.adjustments.insert(job.plan.adjustments.end(), contracts.begin(), contracts.end());
    describe_loras(job.loras, job.plan);
    const auto& warnings = job.prompt.presentation.warnings;
    job.plan.warnings.insert(job.plan.warnings.end(), warnings.begin(), warnings.end());
    return job;
  }

  Result<PlanInputs> plan_inputs(const Inputs& inputs) const {
    PlanInputs in;
    in.defaults = model_.defaults;
    in.text = model_.text_config;
    in.dit = model_.dit_config;
    in.video_vae = model_.video_vae_config;
    in.audio_vae = model_.audio_vae_config;
    TRITIUM_TRY_ASSIGN(in.text_weights, parts_.weights(Part::text));
    TRITIUM_TRY_ASSIGN(in.dit_weights, parts_.weights(Part::dit));
    TRITIUM_TRY_ASSIGN(in.video_weights, parts_.weights(Part::video_decoder));
    TRITIUM_TRY_ASSIGN(in.audio_weights, parts_.weights(Part::audio_decoder));
    in.device = device_->info().name;
    in.available_bytes = free_host_memory();
    in.mode = inputs.mode;
    in.picture = inputs.picture;
    in.clip_frames = inputs.frames;
    return in;
  }

  // Weights already loaded are counted as needed, so they count as available too.
  [[nodiscard]] std::uint64_t free_host_memory() const { return host_memory().available + (device_->is_cpu() ? parts_.loaded_bytes() : 0); }

  void describe_memory(PlanInputs& in) const {
    const DeviceInfo& device = device_->info();
    const bool host = device_->is_cpu();
    Machine machine;
    machine.host_budget = memory_budget(free_host_memory(), budgets_.of(host ? device.name : "host"));
    machine.disk_bandwidth = kAssumedDiskBandwidth;
    const std::uint64_t free = device.memory_free > 0 ? device.memory_free + parts_.loaded_bytes() : std::uint64_t{1} << 60;
    machine.devices.push_back({device.name, host ? 0 : memory_budget(free, budgets_.of(device.name)), host,
                               host ? device_->threads() * kAssumedCoreFlops : kAssumedDeviceFlops, kAssumedHostBandwidth});
    in.machine = std::make_shared<const Machine>(std::move(machine));
    in.shape = std::make_shared<const ModelShape>(
        model_shape(model_, {in.input_weights, in.text_weights, in.dit_weights, in.video_weights, in.audio_weights}));
    // The released model is known in other formats.
    MemoryAlternatives alternatives;
    if (in.dit.layers == 50 && in.dit.hidden == 5376)
      for (const ModelPreset& preset : model_presets())
        alternatives.models.push_back(released_model_shape(preset, host ? MatrixForm::packed : MatrixForm::blocks));
    for (const DeviceInfo& other : list_devices()) {
      const bool is_host = other.kind == "cpu";
      if (other.name == device.name || (!is_host && other.memory_free == 0)) continue;
      alternatives.devices.push_back({other.name, is_host ? 0 : memory_budget(other.memory_free, budgets_.of(other.name)), is_host, 1, 1});
    }
    in.alternatives = std::make_shared<const MemoryAlternatives>(std::move(alternatives));
  }

  Result<void> add_input_costs(const Job& job, PlanInputs& in) const {
    for (const Part part : encoders_for(job.inputs)) {
      TRITIUM_TRY_ASSIGN(const PlanInputs::Weights weights, parts_.weights(part));
      in.input_weights.bytes += weights.bytes;
      if (weights.precision == MatrixPrecision::bf16) in.input_weights.precision = weights.precision;
    }
    if (in.mode == Mode::t2va) return {};
    const StageCost cost = inputs_cost(job.inputs, job.prompt, model_);
    in.input_flops = cost.flops;
    in.input_working_bytes = cost.working_bytes;
    return {};
  }

  // Rough seconds per stage: operations at a common rate, weights at a disk's rate. Only the proportions matter.
  [[nodiscard]] std::vector<ProgressTracker::Stage> expected_stages(const Plan& plan) const {
    constexpr double kOperationsPerSecond = 2e10, kBytesPerSecond = 5e8, kPixelsPerSecond = 2e7;
    std::uint64_t to_load = 0;
    for (const StagePlan& stage : plan.stages) to_load += stage.weight_bytes;
    std::vector<ProgressTracker::Stage> out{
        {"load", 0.01 + static_cast<double>(to_load - std::min(to_load, parts_.loaded_bytes())) / kBytesPerSecond}};
    for (const StagePlan& stage : plan.stages) out.push_back({stage.name, 0.01 + stage.flops / kOperationsPerSecond});
    out.push_back({"write", 0.01 + static_cast<double>(plan.width) * plan.height * plan.frames / kPixelsPerSecond});
    return out;
  }

  ModelInfo model_;
  Tokenizer tokenizer_;
  std::unique_ptr<Device> device_;  // outlives the parts
  Parts parts_;
  MemoryBudgets budgets_;
  AttachedLoras loras_;  // on the transformer of the parts
  std::string fingerprints_;
};

Result<ModelSelection> model_selection_of(const EngineOptions& options) {
  TRITIUM_TRY_ASSIGN(ModelSelection out, parse_model_selection(options.partition, options.qkv_order));
  out.dit = options.dit;
  out.text_encoder = options.text_encoder;
  out.video_vae = options.video_vae;
  out.audio_vae = options.audio_vae;
  out.tokenizer = options.tokenizer;
  if (options.prefer_ref2va) out.preferred = Partition::ref2va;
  return out;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  TRITIUM_TRY_ASSIGN(const ModelSelection selection, model_selection_of(options));
  TRITIUM_TRY_ASSIGN(MemoryBudgets budgets, parse_memory_budgets(options.memory_budgets));
  TRITIUM_TRY_ASSIGN(ModelInfo model, open_model(options.model, selection));
  TRITIUM_TRY_ASSIGN(Tokenizer tokenizer, Tokenizer::load(model.tokenizer()));
  if (tokenizer.vocab_size() > model.text_config.vocabulary)
    return Error{ErrorCode::model,
                 fmt::format("the tokenizer has {} ids, the text encoder {} rows", tokenizer.vocab_size(), model.text_config.vocabulary),
                 "model", "they belong to different models"};
  TRITIUM_TRY(stage_weights(model, options.compute));
  TRITIUM_TRY_ASSIGN(auto device, Device::open(options.device, options.threads));
  if (!options.dump_tensors.empty()) {
    TRITIUM_TRY_ASSIGN(TensorObserver observer, make_tensor_dump(options.dump_tensors));
    device->set_observer(std::move(observer));
  }
  return std::unique_ptr<Engine>(
      std::make_unique<LocalEngine>(std::move(model), std::move(tokenizer), std::move(device), options.compute, std::move(budgets)));
}

const char* version() { return TRITIUM_VERSION; }

}  // namespace tritium
