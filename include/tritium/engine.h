// The engine: one model on one machine, from a request to an MP4 with sound.
//
//   tritium::EngineOptions options;
//   options.model = "models/demo";
//   auto engine = tritium::Engine::open(options);
//   if (!engine.ok()) { std::cerr << engine.error().text(); return 1; }
//   tritium::Request request;
//   request.prompt = "a red circle moves to the right on a blue background with a low tone";
//   auto artifact = (*engine)->generate(request, {.video = "out.mp4"});
#pragma once

#include <tritium/cancel.h>
#include <tritium/plan.h>
#include <tritium/request.h>
#include <tritium/result.h>

#include <functional>
#include <memory>

namespace tritium {

struct EngineOptions {
  std::filesystem::path model;  // folder of the model, or the file of its transformer
  // Where stages run: a device for all ("CPU"), devices to choose from or to split over ("GPU0+GPU1"), or by stage
  // ("text=CPU,dit=GPU0*60+GPU1*40,vae=GPU0"). Empty: the graphics cards and the CPU, each stage where it is fastest.
  std::string device;
  int threads = 0;                     // for CPU work; 0: all usable processors
  std::string compute = "auto";        // matrices as "f32", "bf16", "int8" or by size and format ("auto": docs/cli.md)
  std::filesystem::path dump_tensors;  // if not empty, every named intermediate is written there
  // If not empty: after each request, where the time of all nodes so far went, as a trace for Chrome or Perfetto in this file, and as a
  // table in the file of this name with ".txt" behind it. Requests then run one at a time, and nothing is taken from a cache.
  std::filesystem::path profile;
  // Single parts instead of what is found in the model's folder: files, or folders with one part.
  std::filesystem::path dit, text_encoder, video_vae, audio_vae, tokenizer;
  // "DEVICE=GiB", or a number for all; empty: what is free less a reserve. What does not fit is streamed, with the same results.
  std::vector<std::string> memory_budgets;
  bool budgets_are_free = false;       // plan as if all of them were free, whatever is: for plans about another process
  std::filesystem::path cache_folder;  // text rows of prompts seen before; empty: they are kept in memory only
  bool pin = false;                    // weights that the CPU uses are locked in memory (RLIMIT_MEMLOCK)
  std::string partition;               // "fl2va" or "ref2va"; empty: as the files say
  std::string qkv_order;               // of the transformer's rows: "interleaved" or "plain"; empty: as the files say
  bool prefer_ref2va = false;          // where a model has both partitions and none is named
};

struct Progress {
  std::string stage;        // "load", "text", "denoise", "video", "audio", "write"
  int step = 0, of = 0;     // within the stage: layers, evaluations, tiles, ...
  double fraction = 0;      // of the whole request, 0..1
  double eta_seconds = -1;  // until the end; negative while unknown
};
using ProgressCallback = std::function<void(const Progress&)>;

// Called while a request runs; each may be empty.
struct GenerateHooks {
  std::function<void(const Plan&)> plan;  // once, when everything is decided and nothing has been computed yet
  ProgressCallback progress;
  // A small JPEG of what the clip will look like, at most one per evaluation; none while the engine does not know how to make one cheaply.
  std::function<void(const std::string& jpeg)> preview{};
};

struct StageTiming {
  std::string stage;
  double seconds = 0;
};

struct Artifact {
  std::filesystem::path video, sidecar;
  Plan plan;
  std::vector<StageTiming> timings;
  std::vector<std::string> warnings;
};

class Engine {
 public:
  // Reads configurations and headers and checks that they belong together; weights are loaded when first needed and stay loaded.
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  virtual ~Engine() = default;

  // Errors: usage (names field, value and range), does_not_fit (need and have).
  virtual Result<Plan> plan(const Request& request) = 0;

  // Errors as plan(), and: model, device, rejected (the output is not acceptable; a finished but rejected video is kept as
  // "<name>.rejected.mp4"), interrupted. On error nothing exists under the final name.
  virtual Result<Artifact> generate(const Request& request, const OutputOptions& output, const GenerateHooks& hooks,
                                    const CancelToken* cancel) = 0;
  Result<Artifact> generate(const Request& request, const OutputOptions& output, const ProgressCallback& progress = {},
                            const CancelToken* cancel = nullptr) {
    return generate(request, output, GenerateHooks{{}, progress}, cancel);
  }

  // What may be taken now of the host's memory and of every device in use, in the form of EngineOptions::memory_budgets. Errors: device,
  // usage (budgets name a device that is not in use).
  virtual Result<std::vector<std::string>> memory_budgets() = 0;

  // Description of the model as a JSON document, and as text for people.
  [[nodiscard]] virtual std::string model_json() const = 0;
  [[nodiscard]] virtual std::string model_text() const = 0;
};

// "0.1.0"
const char* version();

}  // namespace tritium
