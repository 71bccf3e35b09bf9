// One evaluation of MiniMax-H3's transformer in stable-diffusion.cpp, which is no part of Tritium: see bench/compare.md.
//
//   sdcpp FILE [--rows N] [--threads N] [--runs N] [--no-flash] [--repack] [--save FILE] [--verbose]
//
// FILE is a pruned transformer as ComfyUI's safetensors or as GGUF. --repack puts the weights where ggml's CPU backend lays them out
// anew for its own fastest kernels; stable-diffusion.cpp itself never asks for that. --save writes the velocities, video
// [24][frames][16][16] and then sound [32][2][64].
#include "core/ggml_extend_backend.h"
#include "measure.h"
#include "model/diffusion/minimax_h3.hpp"
#include "model_manager.h"
#include "same_inputs.h"

#include "ggml-cpu.h"

namespace {

struct Options {
  std::string file, save;
  int rows = 2048, threads = 2, runs = 5;
  bool flash = true, repack = false, verbose = false;
};

bool parse(int count, char** arguments, Options& out) {
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    const auto number = [&] { return ++i < count ? std::atoi(arguments[i]) : 0; };
    if (word == "--rows") {
      out.rows = number();
    } else if (word == "--threads") {
      out.threads = number();
    } else if (word == "--runs") {
      out.runs = number();
    } else if (word == "--no-flash") {
      out.flash = false;
    } else if (word == "--repack") {
      out.repack = true;
    } else if (word == "--verbose") {
      out.verbose = true;
    } else if (word == "--save" && i + 1 < count) {
      out.save = arguments[++i];
    } else if (out.file.empty() && word[0] != '-') {
      out.file = word;
    } else {
      return false;
    }
  }
  return !out.file.empty();
}

// Weights in the CPU backend's buffers for repacked matrices where it takes them, in plain ones otherwise.
class RepackedWeights : public RunnerWeightManager {
 public:
  RepackedWeights(ModelLoader& loader, ggml_backend_t backend) : loader_(loader), backend_(backend) {
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    const auto lookup = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
    for (auto* type = lookup != nullptr ? lookup(device) : nullptr; type != nullptr && *type != nullptr; ++type) {
      extra_types_.push_back(*type);
    }
  }
  ~RepackedWeights() override {
    for (ggml_backend_buffer_t buffer : buffers_) ggml_backend_buffer_free(buffer);
  }

  bool load(std::map<std::string, ggml_tensor*> tensors) {
    for (auto& [name, tensor] : tensors) place(tensor);
    std::printf("%d of %zu tensors are repacked\n", repacked_, tensors.size());
    return loader_.load_tensors(tensors);
  }

  bool assign_compute_backend(const std::vector<ggml_tensor*>&, ggml_backend_t) override { return true; }
  bool prepare_params(const std::vector<ggml_tensor*>&) override { return true; }
  void release_compute_backend_params(const std::vector<ggml_tensor*>&) override {}
  void release_params_backend_params(const std::vector<ggml_tensor*>&) override {}

 private:
  bool takes(ggml_backend_buffer_type_t type, ggml_tensor* weight) {
    ggml_context* context = ggml_init({4 * ggml_tensor_overhead(), nullptr, true});
    ggml_tensor* input = ggml_new_tensor_2d(context, GGML_TYPE_F32, weight->ne[0], 512);
    weight->buffer = ggml_backend_buft_alloc_buffer(type, 0);
    const bool yes = ggml_backend_dev_supports_op(ggml_backend_get_device(backend_), ggml_mul_mat(context, weight, input));
    ggml_backend_buffer_free(weight->buffer);
    weight->buffer = nullptr;
    ggml_free(context);
    return yes;
  }

  void place(ggml_tensor* tensor) {
    ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(backend_);
    if (ggml_is_quantized(tensor->type) && ggml_n_dims(tensor) == 2) {
      for (ggml_backend_buffer_type_t extra : extra_types_) {
        if (!takes(extra, tensor)) continue;
        type = extra;
        ++repacked_;
        break;
      }
    }
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, ggml_backend_buft_get_alloc_size(type, tensor));
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    buffers_.push_back(buffer);
    ggml_backend_tensor_alloc(buffer, tensor, ggml_backend_buffer_get_base(buffer));
  }

  ModelLoader& loader_;
  ggml_backend_t backend_;
  std::vector<ggml_backend_buffer_type_t> extra_types_;
  std::vector<ggml_backend_buffer_t> buffers_;
  int repacked_ = 0;
};

// Video [24][frames][16][16] with the sound behind it, filled up to whole channels.
sd::Tensor<float> packed_latents(const SameInputs& inputs) {
  const std::int64_t cells = std::int64_t{inputs.kCells} * inputs.kCells * inputs.frames;
  const auto sound = static_cast<std::int64_t>(inputs.audio.size());
  std::vector<float> values = inputs.video;
  values.insert(values.end(), inputs.audio.begin(), inputs.audio.end());
  const std::int64_t channels = inputs.kChannels + (sound + cells - 1) / cells;
  values.resize(static_cast<std::size_t>(channels * cells));
  return {{inputs.kCells, inputs.kCells, inputs.frames, channels, 1}, std::move(values)};
}

int run(const Options& options) {
  const SameInputs inputs(options.rows);
  sd_set_log_callback(
      [](sd_log_level_t level, const char* text, void* verbose) {
        if (level >= SD_LOG_WARN || *static_cast<const bool*>(verbose)) std::fputs(text, stderr);
      },
      const_cast<bool*>(&options.verbose));
  const std::string prefix = "model.diffusion_model";
  auto manager = std::make_shared<ModelManager>();
  manager->set_n_threads(options.threads);
  ModelLoader& loader = manager->loader();
  if (!loader.init_from_file(options.file, prefix + ".")) return 1;
  loader.convert_tensors_name();
  if (!sd_version_is_minimax_h3(loader.get_sd_version())) {
    std::printf("not a MiniMax-H3 transformer\n");
    return 1;
  }
  ggml_backend_t backend = sd_backend_cpu_init();
  auto repacked = std::make_shared<RepackedWeights>(loader, backend);
  std::shared_ptr<RunnerWeightManager> weights = manager;
  if (options.repack) weights = repacked;
  MiniMaxH3::MiniMaxH3Runner runner(backend, loader.get_tensor_storage_map(), prefix, weights);
  runner.set_flash_attention_enabled(options.flash);
  std::map<std::string, ggml_tensor*> tensors;
  runner.get_param_tensors(tensors, prefix);
  const bool ready =
      options.repack ? repacked->load(tensors)
                     : manager->register_param_tensors("transformer", tensors, ModelManager::ResidencyMode::ParamBackend, backend, backend);
  if (!ready) return 1;

  // Equal shifts: both streams stand at the same time, and the sound's velocity is not scaled.
  const sd::Tensor<float> x = packed_latents(inputs), time({1}, {500.0f});
  const sd::Tensor<float> text({inputs.kTextWidth, inputs.kText, 1}, inputs.text);
  const sd::Tensor<std::int32_t> tags({inputs.kText}, std::vector<std::int32_t>(inputs.kText, 1));
  MiniMaxH3DiffusionExtra extra;
  extra.text_token_tags = &tags;
  extra.audio_length = inputs.kAudio;
  extra.video_sigma_shift = extra.audio_sigma_shift = 3.0f;
  DiffusionParams request;
  request.x = &x;
  request.timesteps = &time;
  request.context = &text;
  request.extra = extra;
  sd::Tensor<float> result;
  const Measured seconds = measure_runs(options.runs, [&] { result = runner.compute(options.threads, request); });
  if (result.empty()) return 1;
  std::vector<float> velocity = result.values();
  velocity.resize(inputs.video.size() + inputs.audio.size());
  for (float& v : velocity) v = -v;
  double rms = 0;
  const bool finite = describe_values(velocity, rms);
  std::printf(
      "sd.cpp, %d rows, %lld blocks, %d threads,%s flash%s: median %.3f s, least %.3f s, first %.3f s, CPU %.3f s, peak %.0f MB, %s, rms "
      "%.4f\n",
      inputs.rows(), static_cast<long long>(runner.config.num_layers), options.threads, options.flash ? "" : " no",
      options.repack ? ", repacked" : "", seconds.median, seconds.least, seconds.first, seconds.cpu, peak_resident_mb(),
      finite ? "finite" : "NOT FINITE", rms);
  if (!options.save.empty()) save_values(options.save, velocity);
  // The manager may not outlive the tensors it knows.
  if (!options.repack) manager->unregister_param_tensors("transformer");
  return finite && rms > 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Options options;
  if (!parse(count, arguments, options)) {
    std::printf("sdcpp FILE [--rows N] [--threads N] [--runs N] [--no-flash] [--repack] [--save FILE] [--verbose]\n");
    return 2;
  }
  return run(options);
}
