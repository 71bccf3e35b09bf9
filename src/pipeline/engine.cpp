#include <tritium/engine.h>

#include "base/system.h"
#include "base/try.h"
#include "pipeline/model_json.h"
#include "pipeline/plan.h"
#include "pipeline/progress.h"
#include "pipeline/publish.h"
#include "pipeline/stages.h"
#include "pipeline/tensor_dump.h"

#include <fmt/format.h>
#include <random>

namespace tritium {
namespace {

class LocalEngine final : public Engine {
 public:
  LocalEngine(ModelInfo model, Tokenizer tokenizer, StageWeights weights, std::unique_ptr<Device> device)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)), weights_(weights), device_(std::move(device)) {}

  Result<Plan> plan(const Request& request) override {
    TRITIUM_TRY_ASSIGN(const Presentation presentation, present(request));
    return plan_with(request, presentation);
  }

  Result<Artifact> generate(const Request& request, const OutputOptions& output, const ProgressCallback& callback, const CancelToken* cancel) override {
    TRITIUM_TRY_ASSIGN(const Presentation presentation, present(request));
    TRITIUM_TRY_ASSIGN(const Plan plan, plan_with(request, presentation));
    TRITIUM_TRY_ASSIGN(AtomicFile reserved, reserve_output(output, plan));

    ProgressTracker tracker(expected_stages(plan), callback);
    const StepProgress step = [&tracker](int done, int of) { tracker.report(done, of); };
    tracker.begin("load");
    TRITIUM_TRY(load(cancel, tracker));
    tracker.begin("text");
    TRITIUM_TRY_ASSIGN(const Conditioning conditioning, encode_text(*text_, presentation, cancel, step));
    tracker.begin("denoise");
    TRITIUM_TRY_ASSIGN(Latents noise, initial_noise(plan));
    TRITIUM_TRY_ASSIGN(const Latents latents, denoise(*dit_, plan, conditioning, std::move(noise), cancel, step));
    Clip clip;
    tracker.begin("video");
    TRITIUM_TRY(decode_video(*video_, plan, latents, clip, cancel, step));
    tracker.begin("audio");
    TRITIUM_TRY(decode_audio(*audio_, plan, latents, clip, cancel, step));
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
  Result<Presentation> present(const Request& request) const {
    if (model_.partition != Partition::fl2va)
      return Error{ErrorCode::model, "this is the Ref2VA model; text-to-video needs the FL2VA model", "model", "name the FL2VA folder with -m"};
    return present_t2va(tokenizer_, request.prompt, {model_.text_config.max_positions});
  }

  Result<Plan> plan_with(const Request& request, const Presentation& presentation) const {
    PlanInputs in{model_.defaults, model_.text_config, model_.dit_config, model_.video_vae_config, model_.audio_vae_config, weights_.text,
                  weights_.dit, weights_.video, weights_.audio, device_->info().name, 0, 0};
    in.text_tokens = static_cast<int>(presentation.ids.size());
    in.available_bytes = host_memory().available + resident_bytes();
    TRITIUM_TRY_ASSIGN(Plan plan, make_plan(request, in, std::random_device{}()));
    plan.warnings.insert(plan.warnings.end(), presentation.warnings.begin(), presentation.warnings.end());
    return plan;
  }

  // Weights already loaded: the plan counts them as needed, so they must count as available too.
  [[nodiscard]] std::uint64_t resident_bytes() const {
    return (text_ ? weights_.text.bytes : 0) + (dit_ ? weights_.dit.bytes : 0) + (video_ ? weights_.video.bytes : 0) + (audio_ ? weights_.audio.bytes : 0);
  }

  // Rough seconds per stage: operations at a common rate, weights at a disk's rate. Only the proportions matter.
  [[nodiscard]] std::vector<ProgressTracker::Stage> expected_stages(const Plan& plan) const {
    constexpr double kOperationsPerSecond = 2e10, kBytesPerSecond = 5e8, kPixelsPerSecond = 2e7;
    std::uint64_t to_load = 0;
    for (const StagePlan& stage : plan.stages) to_load += stage.weight_bytes;
    std::vector<ProgressTracker::Stage> out{{"load", 0.01 + static_cast<double>(to_load - std::min(to_load, resident_bytes())) / kBytesPerSecond}};
    for (const StagePlan& stage : plan.stages) out.push_back({stage.name, 0.01 + stage.flops / kOperationsPerSecond});
    out.push_back({"write", 0.01 + static_cast<double>(plan.width) * plan.height * plan.frames / kPixelsPerSecond});
    return out;
  }

  Result<void> load(const CancelToken* cancel, ProgressTracker& tracker) {
    const std::uint64_t total = weights_.text.bytes + weights_.dit.bytes + weights_.video.bytes + weights_.audio.bytes;
    const auto percent_from = [&tracker, total](std::uint64_t before) {
      return LoadProgress([&tracker, total, before](std::uint64_t done, std::uint64_t) {
        tracker.report(static_cast<int>(100 * (before + done) / std::max<std::uint64_t>(total, 1)), 100);
      });
    };
    std::uint64_t before = 0;
    if (!text_) {
      TRITIUM_TRY_ASSIGN(TextModel text, TextModel::load(*device_, model_.text, model_.text_config, weights_.text.precision, cancel, percent_from(before)));
      text_ = std::make_unique<TextModel>(std::move(text));
    }
    before += weights_.text.bytes;
    if (!dit_) {
      TRITIUM_TRY_ASSIGN(dit_, Dit::load(*device_, *model_.dit, model_.dit_layout, model_.dit_config, weights_.dit.precision, cancel, percent_from(before)));
    }
    before += weights_.dit.bytes;
    if (!video_) {
      TRITIUM_TRY_ASSIGN(auto video, video_vae::VideoDecoder::load(*device_, *model_.video_vae, model_.video_vae_config, weights_.video.precision, cancel, percent_from(before)));
      video_ = std::make_unique<video_vae::VideoDecoder>(std::move(video));
    }
    before += weights_.video.bytes;
    if (!audio_) {
      TRITIUM_TRY_ASSIGN(auto audio, audio_vae::AudioDecoder::load(*device_, *model_.audio_vae, model_.audio_vae_config, cancel, percent_from(before)));
      audio_ = std::make_unique<audio_vae::AudioDecoder>(std::move(audio));
    }
    if (fingerprints_.empty()) {
      TRITIUM_TRY_ASSIGN(fingerprints_, weight_fingerprints(model_, cancel));
    }
    return {};
  }

  ModelInfo model_;
  Tokenizer tokenizer_;
  StageWeights weights_;
  std::unique_ptr<Device> device_;  // outlives the parts below
  std::unique_ptr<TextModel> text_;
  std::unique_ptr<Dit> dit_;
  std::unique_ptr<video_vae::VideoDecoder> video_;
  std::unique_ptr<audio_vae::AudioDecoder> audio_;
  std::string fingerprints_;
};

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  TRITIUM_TRY_ASSIGN(ModelInfo model, open_model(options.model));
  TRITIUM_TRY_ASSIGN(Tokenizer tokenizer, Tokenizer::load(model.tokenizer()));
  if (tokenizer.vocab_size() > model.text_config.vocabulary)
    return Error{ErrorCode::model, fmt::format("the tokenizer has {} ids, the text encoder {} rows", tokenizer.vocab_size(), model.text_config.vocabulary), "model", "they belong to different models"};
  TRITIUM_TRY_ASSIGN(const StageWeights weights, stage_weights(model, options.compute));
  TRITIUM_TRY_ASSIGN(auto device, Device::open(options.device, options.threads));
  if (!options.dump_tensors.empty()) {
    TRITIUM_TRY_ASSIGN(TensorObserver observer, make_tensor_dump(options.dump_tensors));
    device->set_observer(std::move(observer));
  }
  return std::unique_ptr<Engine>(std::make_unique<LocalEngine>(std::move(model), std::move(tokenizer), weights, std::move(device)));
}

const char* version() { return TRITIUM_VERSION; }

}  // namespace tritium
