#include "cli/common.h"

#include "base/system.h"
#include "base/try.h"
#include "device/device.h"
#include "pipeline/plan_json.h"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

namespace tritium::cli {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

struct BenchOptions {
  ModelOptions model;
  RequestOptions request;
  int runs = 5;
  bool json = false, keep_prompt = false;
};

// Seconds of one stage, or of all, over the runs.
struct Times {
  std::vector<double> seconds;
  [[nodiscard]] double at(double share) const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    const double place = share * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
  }
};

struct Measured {
  std::map<std::string, Times> stages;
  std::vector<std::string> order;  // of the stages
  std::vector<std::uint64_t> seeds;
  double first_seconds = 0;  // with loading
  std::string plan;          // JSON, of the last run
  void add(const std::string& stage, double seconds) {
    if (!stages.contains(stage)) order.push_back(stage);
    stages[stage].seconds.push_back(seconds);
  }
};

// A folder for the results, gone afterwards.
class Folder {
 public:
  static Result<std::unique_ptr<Folder>> create() {
    std::string name = (fs::temp_directory_path() / "tritium-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      return Error{ErrorCode::failure, fmt::format("cannot create a folder in '{}'", fs::temp_directory_path().string()), "", "see TMPDIR"};
    return std::unique_ptr<Folder>(new Folder(name));
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  explicit Folder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  return "unknown";
}

// Every run has a seed and a prompt of its own, so that nothing of the one before can be used again; the first, which loads, is told apart.
Result<Measured> measure(const BenchOptions& o) {
  Request request = o.request.request;
  if (!o.request.prompt.empty() || !o.request.prompt_file.empty()) {
    TRITIUM_TRY_ASSIGN(request, read_request(o.request));
  } else {
    TRITIUM_TRY(read_input_options(o.request.inputs, request));
    TRITIUM_TRY(read_lora_options(o.request.loras, request));
    request.prompt = "a red circle moves to the right, a low tone";
  }
  request.force = true;  // black pictures of a model with random weights take as long
  CancelToken& cancel = interrupt_token();
  ModelOptions model = o.model;
  if (model.cache_dir.empty()) model.cache_dir = "none";
  TRITIUM_TRY_ASSIGN(const auto engine, open_engine(model, true, !request.references.empty()));
  TRITIUM_TRY_ASSIGN(const auto folder, Folder::create());
  Measured out;
  const std::string prompt = request.prompt;
  for (int run = 0; run <= o.runs; ++run) {
    std::random_device random;
    request.seed = std::uint64_t{random()} << 32 | random();
    if (!o.keep_prompt) request.prompt = fmt::format("{} {}", prompt, *request.seed % 10000);
    const double start = monotonic_seconds();
    TRITIUM_TRY_ASSIGN(const Artifact artifact,
                       engine->generate(request, {.video = folder->path() / "out.mp4"}, ProgressCallback(), &cancel));
    const double seconds = monotonic_seconds() - start;
    std::fprintf(stderr, "run %d of %d: %.3f s%s\n", run, o.runs, seconds, run == 0 ? ", with loading; not counted" : "");
    if (run == 0) {
      out.first_seconds = seconds;
      continue;
    }
    out.seeds.push_back(*request.seed);
    out.plan = plan_json(artifact.plan);
    for (const StageTiming& t : artifact.timings) out.add(t.stage, t.seconds);
    out.add("all", seconds);
  }
  return out;
}

Json report(const Measured& m, const BenchOptions& o) {
  Json out{{"tritium", version()},
           {"commit", TRITIUM_COMMIT},
           {"ggml", backend_library_version()},
           {"measured", utc_timestamp()},
           {"machine",
            {{"processor", processor()},
             {"threads", o.model.threads > 0 ? o.model.threads : usable_cpus()},
             {"memory", host_memory().total},
             {"kernels", fast_kernels_wanted() ? "own" : "plain"}}},
           {"runs", o.runs},
           {"seeds", m.seeds},
           {"first_seconds", m.first_seconds},
           {"peak_memory", peak_resident_bytes()}};
  for (const std::string& stage : m.order) {
    const Times& t = m.stages.at(stage);
    out["seconds"][stage] = {
        {"median", t.at(0.5)}, {"least", t.at(0)}, {"most", t.at(1)}, {"quartiles", {t.at(0.25), t.at(0.75)}}, {"all", t.seconds}};
  }
  out["plan"] = Json::parse(m.plan);
  return out;
}

void print(const Measured& m) {
  std::printf("%-10s %10s %10s %10s   seconds\n", "stage", "median", "least", "most");
  for (const std::string& stage : m.order) {
    const Times& t = m.stages.at(stage);
    std::printf("%-10s %10.3f %10.3f %10.3f\n", stage.c_str(), t.at(0.5), t.at(0), t.at(1));
  }
  std::printf("first run, with loading: %.3f s; peak memory of the process: %s\n", m.first_seconds,
              format_bytes(peak_resident_bytes()).c_str());
}

}  // namespace

Runner add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  add_model_options(app, options->model);
  add_request_options(app, options->request);
  app.add_option("--runs", options->runs, "Runs that count; one before them loads the model")->check(between(1, 1000));
  app.add_flag("--same-prompt", options->keep_prompt, "Leave the prompt as it is, so that its encoding is remembered");
  app.add_flag("--json", options->json, "Print machine, commit, plan and all times as JSON");
  return [options] {
    if (options->request.request.seed) return fail({ErrorCode::usage, "every run draws its own seed", "seed", "leave it out"});
    const auto measured = measure(*options);
    if (!measured.ok()) return fail(measured.error());
    if (options->json)
      std::printf("%s\n", report(*measured, *options).dump(2).c_str());
    else
      print(*measured);
    return 0;
  };
}

}  // namespace tritium::cli
