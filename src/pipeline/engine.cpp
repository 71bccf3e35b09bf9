#include <tritium/engine.h>

#include "base/system.h"
#include "base/try.h"
#include "pipeline/arithmetic.h"
#include "pipeline/checkpoint.h"
#include "pipeline/clip_writer.h"
#include "pipeline/fallbacks.h"
#include "pipeline/job.h"
#include "pipeline/model_json.h"
#include "pipeline/preview.h"
#include "pipeline/progress.h"
#include "pipeline/publish.h"
#include "pipeline/stages.h"
#include "pipeline/tensor_dump.h"
#include "pipeline/text_cache.h"
#include "pipeline/turns.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>

namespace tritium {
namespace {

class LocalEngine final : public Engine {
 public:
  LocalEngine(ModelInfo model, Tokenizer tokenizer, MachineOptions machine, TensorObserver observer, const EngineOptions& options)
      : model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        machine_(std::move(machine)),
        devices_(options.threads, observer),
        parts_(model_, devices_, options.compute, options.pin),
        planner_(model_, tokenizer_, machine_, devices_, parts_),
        compute_(options.compute),
        observed_(static_cast<bool>(observer) || !options.profile.empty()),
        profile_file_(options.profile),
        texts_(observed_ ? std::filesystem::path() : options.cache_folder),
        previews_(options.cache_folder, encoder_key(*model_.video_vae, "preview")) {
    if (!profile_file_.empty()) devices_.set_profile(&profile_);
    parts_.before_dropping_dit([this] { loras_.release(); });
  }

  Result<Plan> plan(const Request& request) override {
    TRITIUM_TRY_ASSIGN(PreparedRequest job, planner_.prepare(request, nullptr));
    TRITIUM_TRY(list_fallbacks(job));
    return job.plan;
  }

  // Every device that was named can be opened.
  Result<void> check_devices() {
    for (const std::string& name : machine_.placement.devices()) TRITIUM_TRY(devices_.get(name));
    return {};
  }

  using Engine::generate;
  Result<Artifact> generate(const Request& request, const OutputOptions& output, const GenerateHooks& hooks,
                            const CancelToken* cancel) override {
    TRITIUM_TRY_ASSIGN(const PreparedRequest job, planner_.prepare(request, cancel));
    const Plan& plan = job.plan;
    if (hooks.plan) hooks.plan(plan);
    TRITIUM_TRY_ASSIGN(AtomicFile reserved, reserve_output(output, plan));

    ProgressTracker tracker(expected_stages(plan), hooks.progress);
    Run run{job,
            request,
            part_places(plan, parts_for(job.inputs), lora_bytes(job.loras)),
            tracker,
            cancel,
            [&tracker](int done, int of) { tracker.report(done, of); },
            text_key(job),
            {},
            {},
            hooks,
            {},
            {},
            {}};
    if (!observed_) run.known_text = texts_.find(run.text_key);
    tracker.begin("load");
    TRITIUM_TRY_ASSIGN(const std::string fingerprints, fingerprints_of_weights(cancel));
    TRITIUM_TRY(take_up(run, output, fingerprints));
    TRITIUM_TRY_ASSIGN(run.turn, begin_turn(run));
    Conditioning conditioning;
    TRITIUM_TRY(condition(run, conditioning));
    TRITIUM_TRY_ASSIGN(const DenoiseState denoised, denoise_all(run, conditioning));
    const Latents& latents = denoised.latents;
    TRITIUM_TRY_ASSIGN(StereoSound sound, decode_sound(run, latents));
    TRITIUM_TRY_ASSIGN(ClipWriter writer, ClipWriter::open(std::move(reserved), output, plan, std::move(sound), cancel));
    CellColours colours(plan);
    const PictureSink take = [&](const std::vector<std::uint8_t>& rgb) {
      if (hooks.preview) colours.add(rgb);
      return writer.add(rgb);
    };
    TRITIUM_TRY_ASSIGN(const std::size_t ahead, frames_ahead(run));
    FrameQueue frames(take, ahead);
    TRITIUM_TRY(decode_pictures(run, latents, frames));
    // Weights may lie in the files themselves: what was written over meanwhile may have got into the result.
    for (const auto& part : {model_.text, model_.dit, model_.video_vae, model_.audio_vae})
      TRITIUM_TRY(part->checkpoint().check_unchanged());
    run.turn = {};
    tracker.begin("write");
    TRITIUM_TRY(frames.finish());
    const GuardReport guard = writer.inspect();
    Artifact artifact{output.video, sidecar_of(output.video), plan, {}, guard.warnings};
    artifact.plan.computed_evaluations = denoised.computed;
    const int threads = machine_.threads > 0 ? machine_.threads : usable_cpus();
    const std::string metadata = metadata_json({request, artifact.plan, model_, fingerprints, tracker.timings(), guard, threads});
    TRITIUM_TRY(writer.publish(latents, guard, metadata));
    tracker.finish();
    artifact.timings = tracker.timings();
    const auto& remarks = run.checkpoint.warnings();
    artifact.warnings.insert(artifact.warnings.end(), remarks.begin(), remarks.end());
    if (hooks.preview) previews_.learn(plan, latents.video, colours);
    TRITIUM_TRY(write_profile());
    return artifact;
  }

  Result<std::vector<std::string>> memory_budgets() override {
    TRITIUM_TRY_ASSIGN(const Machine machine, describe_machine(machine_, devices_, parts_));
    return budget_texts(machine);
  }
  [[nodiscard]] std::string model_json() const override { return describe_model_json(model_); }
  [[nodiscard]] std::string model_text() const override { return describe_model_text(model_); }

 private:
  struct Run {
    const PreparedRequest& job;
    const Request& request;
    std::map<Part, PartPlace> places;
    ProgressTracker& tracker;
    const CancelToken* cancel;
    StepProgress step;
    std::string text_key;
    std::optional<TextCache::Rows> known_text;
    Turns::Turn turn;
    const GenerateHooks& hooks;
    RunCheckpoint checkpoint;
    // What an earlier run left.
    std::optional<Conditioning> conditioning;
    std::optional<DenoiseState> state;

    [[nodiscard]] bool conditioned() const { return conditioning || denoised(); }
    [[nodiscard]] bool denoised() const { return state && state->steps == job.plan.steps; }
  };

  // What an earlier run of the same request reached.
  Result<void> take_up(Run& run, const OutputOptions& output, const std::string& fingerprints) const {
    if (output.checkpoint.empty() || observed_) return {};
    TRITIUM_TRY_ASSIGN(std::string key, run_key(run.job, run.request, fingerprints, compute_, run.cancel));
    run.checkpoint = RunCheckpoint(output.checkpoint, std::move(key), output.checkpoint_steps);
    run.state = run.checkpoint.latents(run.job.plan);
    if (!run.denoised()) run.conditioning = run.checkpoint.conditioning(run.job.plan);
    return {};
  }

  Result<void> write_profile() const {
    if (profile_file_.empty()) return {};
    TRITIUM_TRY(write_file_atomically(profile_file_, profile_.trace()));
    return write_file_atomically(profile_file_.string() + ".txt", profile_.table());
  }

  // Which operations devices other than the CPU do not have.
  Result<void> list_fallbacks(PreparedRequest& job) {
    for (const auto& [part, place] : part_places(job.plan, parts_for(job.inputs), 0))
      for (const PartPlace::Share& share : place.shares) {
        TRITIUM_TRY_ASSIGN(const Device* device, devices_.get(share.device));
        if (device->is_cpu()) continue;
        TRITIUM_TRY_ASSIGN(const auto missing, part_fallbacks(model_, part, share.device.substr(0, share.device.find('#')), compute_));
        for (const UnsupportedOp& op : missing)
          job.plan.warnings.push_back(
              fmt::format("{} does not have {} ({}): the CPU computes it, and values travel", share.device, op.operation, op.scope));
      }
    return {};
  }

  // Everything this request needs is loaded, and beside it run only requests that need nothing else.
  Result<Turns::Turn> begin_turn(const Run& run) {
    std::vector<Part> without;
    if (run.known_text) without = {Part::text, Part::vision};
    if (run.conditioned()) without = {Part::text, Part::vision, Part::video_encoder, Part::audio_encoder};
    if (run.denoised()) without.push_back(Part::dit);
    const bool overlaps = !observed_ && may_overlap(run.job.plan);
    if (overlaps) {
      TRITIUM_TRY_ASSIGN(Turns::Turn shared, turns_.share(run.cancel));
      if (parts_.all_loaded(run.places, without) && (run.denoised() || loras_.has(run.job.loras))) return shared;
    }
    TRITIUM_TRY_ASSIGN(Turns::Turn turn, turns_.alone(run.cancel));
    TRITIUM_TRY(load_what_stays(run, without));
    if (overlaps) {
      if (!run.denoised()) TRITIUM_TRY(loras_.use(parts_.dit(), run.job.loras, run.cancel));
      turn.share_from_now_on();
    }
    return turn;
  }

  Result<std::string> fingerprints_of_weights(const CancelToken* cancel) {
    const std::lock_guard lock(fingerprints_mutex_);
    if (fingerprints_.empty()) { TRITIUM_TRY_ASSIGN(fingerprints_, weight_fingerprints(model_, cancel)); }
    return fingerprints_;
  }

  [[nodiscard]] std::string text_key(const PreparedRequest& job) const {
    const StagePlan& stage = *std::find_if(job.plan.stages.begin(), job.plan.stages.end(), [](const auto& s) { return s.name == "text"; });
    const std::string arithmetic = fmt::format("{} {} {}", stage.device, stage.precision, arithmetic_of_this_program());
    return prompt_key(job.prompt) + encoder_key(*model_.text, arithmetic).substr(0, 16);
  }

  // In the "load" stage everything that will not have to give way again; the rest comes when its stage begins.
  Result<void> load_what_stays(const Run& run, std::span<const Part> without) {
    parts_.make_room(run.places);
    std::vector<Part> now;
    for (const auto& [part, place] : run.places)
      if (place.stays && std::find(without.begin(), without.end(), part) == without.end()) now.push_back(part);
    for (std::size_t i = 0; i < now.size(); ++i) {
      const int before = static_cast<int>(i), all = static_cast<int>(now.size());
      TRITIUM_TRY(parts_.load(now[i], run.places.at(now[i]), run.cancel,
                              [&](int done, int of) { run.step((100 * before + 100 * done / std::max(of, 1)) / all, 100); }));
    }
    return {};
  }

  // Runs a stage when its turn has come, with its parts there. What does not stay goes afterwards, with the scratch memory.
  Result<void> with(const Run& run, const char* stage, std::initializer_list<Part> parts, const std::function<Result<void>()>& work) {
    TRITIUM_TRY_ASSIGN(const StageGates::Pass pass, gates_.enter(stage, stage_width(run.job.plan, stage), run.cancel));
    if (run.turn.is_alone())
      for (const Part part : parts)
        if (const auto place = run.places.find(part); place != run.places.end())
          TRITIUM_TRY(parts_.load(part, place->second, run.cancel, {}));
    TRITIUM_TRY(work());
    if (!run.turn.is_alone()) return {};
    for (const Part part : parts)
      if (const auto place = run.places.find(part); place != run.places.end() && !place->second.stays) parts_.drop(part);
    devices_.release_working_memory();
    return {};
  }

  Result<void> condition(Run& run, Conditioning& out) {
    if (run.conditioned()) {
      if (run.conditioning) out = std::move(*run.conditioning);
      return {};
    }
    TRITIUM_TRY(encode(run, out));
    run.checkpoint.keep(out);
    return {};
  }

  Result<void> encode(const Run& run, Conditioning& out) {
    VisionInputs pictures;
    if (run.job.inputs.mode != Mode::t2va) {
      run.tracker.begin("inputs");
      TRITIUM_TRY(with(run, "inputs", {Part::video_encoder, Part::audio_encoder}, [&] {
        return encode_inputs(parts_, model_, run.job.inputs, run.request, run.job.plan, out, run.cancel, run.step);
      }));
      if (!run.known_text) {
        const auto look = [&]() -> Result<void> {
          TRITIUM_TRY_ASSIGN(pictures, look_at_pictures(parts_, run.job.prompt, run.cancel));
          return {};
        };
        TRITIUM_TRY(with(run, "inputs", {Part::vision}, look));
      }
    }
    run.tracker.begin("text");
    if (run.known_text) {
      out.text = run.known_text->text;
      out.text_tags = run.known_text->tags;
      return {};
    }
    TRITIUM_TRY(
        with(run, "text", {Part::text}, [&] { return encode_prompt(parts_, run.job.prompt, pictures, out, run.cancel, run.step); }));
    texts_.keep(run.text_key, {out.text, out.text_tags});
    return {};
  }

  Result<DenoiseState> denoise_all(Run& run, const Conditioning& conditioning) {
    if (run.denoised()) return std::move(*run.state);
    run.tracker.begin("denoise");
    DenoiseState denoised;
    const Plan& plan = run.job.plan;
    PreviewRun preview(plan, run.hooks.preview ? previews_.map() : PreviewMap(), run.hooks.preview);
    const AfterStep after_step = [&](const StepDone& done) {
      run.checkpoint.keep(plan, done);
      if (done.steps < plan.steps) preview.after_step(done.state, done.velocity, plan.video_sigmas[static_cast<std::size_t>(done.steps)]);
    };
    const auto work = [&]() -> Result<void> {
      if (run.turn.is_alone()) TRITIUM_TRY(loras_.use(parts_.dit(), run.job.loras, run.cancel));
      TRITIUM_TRY_ASSIGN(Latents noise, initial_noise(plan));
      const StepProgress step = [&](int done, int of) {
        relieve();  // after every block
        run.step(done, of);
      };
      TRITIUM_TRY_ASSIGN(denoised,
                         denoise(parts_.dit(), plan, conditioning, std::move(noise), run.cancel, step, std::move(run.state), after_step));
      return {};
    };
    TRITIUM_TRY(with(run, "denoise", {Part::dit}, work));
    return denoised;
  }

  // Something else needs the host's memory: better slower than the machine swapping.
  void relieve() const {
    if (!parts_.dit().streamed()) return;
    const std::uint64_t free = host_memory().available;
    if (free < kLowMemory) parts_.dit().give_back(kLeastReserve - free);
  }

  Result<StereoSound> decode_sound(const Run& run, const Latents& latents) {
    run.tracker.begin("audio");
    StereoSound sound;
    const auto work = [&]() -> Result<void> {
      TRITIUM_TRY_ASSIGN(sound, decode_audio(parts_.audio_decoder(), run.job.plan, latents, run.cancel, run.step));
      return {};
    };
    TRITIUM_TRY(with(run, "audio", {Part::audio_decoder}, work));
    return sound;
  }

  // Frames that may wait to be encoded while others are computed: as many as come at once. Where the CPU itself decodes, none: the
  // encoder's threads would only take its cores away, so it encodes while the decoder waits.
  Result<std::size_t> frames_ahead(const Run& run) {
    for (const PartPlace::Share& share : run.places.at(Part::video_decoder).shares) {
      TRITIUM_TRY_ASSIGN(const Device* device, devices_.get(share.device));
      if (!device->is_cpu()) return frames_at_once(model_.video_vae_config);
    }
    return std::size_t{0};
  }

  Result<void> decode_pictures(const Run& run, const Latents& latents, FrameQueue& frames) {
    run.tracker.begin("video");
    const PictureSink sink = [&frames](std::vector<std::uint8_t> rgb) { return frames.add(std::move(rgb)); };
    return with(run, "video", {Part::video_decoder},
                [&] { return decode_video(parts_.video_decoder(), run.job.plan, latents, sink, run.cancel, run.step); });
  }

  // Rough seconds per stage: operations at a common rate, weights at a disk's rate. Only the proportions matter.
  [[nodiscard]] std::vector<ProgressTracker::Stage> expected_stages(const Plan& plan) const {
    constexpr double kOperationsPerSecond = 2e10, kBytesPerSecond = 5e8, kPixelsPerSecond = 2e7;
    constexpr int kFramesAtTheEnd = 40;  // the encoder holds back at most
    constexpr std::array kParts = {Part::text, Part::dit, Part::video_decoder, Part::audio_decoder};
    std::uint64_t to_load = 0;
    for (const auto& [part, place] : part_places(plan, kParts, 0))
      for (const PartPlace::Share& share : place.shares) to_load += parts_.loaded(part) ? 0 : share.resident_bytes;
    std::vector<ProgressTracker::Stage> out{{"load", 0.01 + static_cast<double>(to_load) / kBytesPerSecond}};
    for (const StagePlan& stage : plan.stages) out.push_back({stage.name, 0.01 + stage.flops / kOperationsPerSecond});
    out.push_back(
        {"write", 0.01 + static_cast<double>(plan.width) * plan.height * std::min(plan.frames, kFramesAtTheEnd) / kPixelsPerSecond});
    return out;
  }

  ModelInfo model_;
  Tokenizer tokenizer_;
  MachineOptions machine_;
  Profile profile_;
  DeviceSet devices_;  // outlive the parts
  Parts parts_;
  JobPlanner planner_;
  std::string compute_;
  bool observed_;  // every intermediate, or its time, is wanted: nothing is taken from a cache
  std::filesystem::path profile_file_;
  TextCache texts_;
  Previews previews_;
  AttachedLoras loras_;  // on the transformer of the parts
  Turns turns_;
  StageGates gates_;
  std::mutex fingerprints_mutex_;
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
  MachineOptions machine;
  TRITIUM_TRY_ASSIGN(machine.placement, parse_placement(options.device));
  TRITIUM_TRY_ASSIGN(machine.budgets, parse_memory_budgets(options.memory_budgets));
  machine.threads = options.threads;
  machine.budgets_are_free = options.budgets_are_free;
  TRITIUM_TRY_ASSIGN(ModelInfo model, open_model(options.model, selection));
  TRITIUM_TRY_ASSIGN(Tokenizer tokenizer, Tokenizer::load(model.tokenizer()));
  if (tokenizer.vocab_size() > model.text_config.vocabulary)
    return Error{ErrorCode::model,
                 fmt::format("the tokenizer has {} ids, the text encoder {} rows", tokenizer.vocab_size(), model.text_config.vocabulary),
                 "model", "they belong to different models"};
  TRITIUM_TRY(stage_weights(model, options.compute));
  TensorObserver observer;
  if (!options.dump_tensors.empty()) { TRITIUM_TRY_ASSIGN(observer, make_tensor_dump(options.dump_tensors)); }
  auto engine = std::make_unique<LocalEngine>(std::move(model), std::move(tokenizer), std::move(machine), std::move(observer), options);
  TRITIUM_TRY(engine->check_devices());
  return std::unique_ptr<Engine>(std::move(engine));
}

const char* version() { return TRITIUM_VERSION; }

}  // namespace tritium
