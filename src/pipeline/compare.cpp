#include "pipeline/compare.h"

#include "base/try.h"
#include "media/picture.h"
#include "pipeline/model_info.h"
#include "weights/checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr int kSteps = 8;

// Removed with everything in it.
class ScratchFolder {
 public:
  static Result<ScratchFolder> create() {
    std::error_code code;
    const fs::path folder = fs::temp_directory_path(code);
    if (code)
      return Error{ErrorCode::failure, "there is no folder for temporary files: " + code.message(), "TMPDIR",
                   "set TMPDIR to a folder that can be written to"};
    std::string name = (folder / "tritium-compare-XXXXXX").string();  // mkdtemp replaces the X
    if (::mkdtemp(name.data()) == nullptr)
      return Error{ErrorCode::failure, fmt::format("cannot make a folder '{}'", name), "", "set TMPDIR to a folder that can be written to"};
    return ScratchFolder(name);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  explicit ScratchFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

struct Outputs {
  std::vector<float> video, audio;
  std::vector<fs::path> frames;  // in order
};

Result<Outputs> generate(Engine& engine, const Request& request, const fs::path& folder, const ProgressCallback& progress,
                         const CancelToken* cancel) {
  OutputOptions output;
  output.video = folder / "clip.mp4";
  output.frames_dir = folder / "frames";
  output.latents = folder / "latents.safetensors";
  auto done = engine.generate(request, output, progress, cancel);
  // A clip that the guards reject is still one to be compared.
  if (!done.ok() && (done.error().code != ErrorCode::rejected || !fs::exists(output.latents))) return std::move(done).error();
  Outputs out;
  TRITIUM_TRY_ASSIGN(const Checkpoint latents, Checkpoint::open(output.latents));
  TRITIUM_TRY_ASSIGN(out.video, latents.read_f32("video"));
  TRITIUM_TRY_ASSIGN(out.audio, latents.read_f32("audio"));
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(output.frames_dir, ignored))
    if (entry.path().extension() == ".png") out.frames.push_back(entry.path());
  std::sort(out.frames.begin(), out.frames.end());
  return out;
}

double relative(const std::vector<float>& got, const std::vector<float>& wanted) {
  if (got.size() != wanted.size()) return std::numeric_limits<double>::infinity();
  double error = 0, value = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto w = static_cast<double>(wanted[i]), d = static_cast<double>(got[i]) - w;
    error += d * d;
    value += w * w;
  }
  return value > 0 ? std::sqrt(error / value) : error > 0 ? std::numeric_limits<double>::infinity() : 0;
}

double psnr(double squared, double count) {
  return squared > 0 ? 10 * std::log10(255.0 * 255.0 * count / squared) : std::numeric_limits<double>::infinity();
}

Result<void> compare_frames(const Outputs& a, const Outputs& b, ComparedPrompt& out) {
  if (a.frames.size() != b.frames.size()) return Error{ErrorCode::failure, "the clips differ in length", "compare", ""};
  double all = 0, count = 0;
  out.worst_frame_psnr = std::numeric_limits<double>::infinity();
  for (std::size_t f = 0; f < a.frames.size(); ++f) {
    TRITIUM_TRY_ASSIGN(const Picture x, load_picture(a.frames[f]));
    TRITIUM_TRY_ASSIGN(const Picture y, load_picture(b.frames[f]));
    if (x.rgb.size() != y.rgb.size()) return Error{ErrorCode::failure, "the pictures differ in size", "compare", ""};
    double here = 0;
    for (std::size_t i = 0; i < x.rgb.size(); ++i) here += std::pow(static_cast<double>(x.rgb[i]) - static_cast<double>(y.rgb[i]), 2);
    out.worst_frame_psnr = std::min(out.worst_frame_psnr, psnr(here, static_cast<double>(x.rgb.size())));
    all += here;
    count += static_cast<double>(x.rgb.size());
  }
  out.frame_psnr = psnr(all, count);
  return {};
}

Error named(const Error& error, const fs::path& model) {
  return {error.code, fmt::format("with '{}': {}", model.string(), error.message), error.field, error.hint};
}

}  // namespace

Result<CompareRequest> default_comparison(const fs::path& model) {
  TRITIUM_TRY_ASSIGN(const ModelInfo info, open_model(model));
  CompareRequest out;
  out.request.width = info.defaults.trained_width[0];
  out.request.height = info.defaults.trained_height[0];
  out.request.frames = info.defaults.trained_frames[0];
  out.request.steps = kSteps;
  out.request.seed = 1;
  out.prompts = {"a red circle moves to the right on a blue background with a low tone"};
  return out;
}

Result<std::vector<ComparedPrompt>> compare_models(const EngineOptions& reference, const EngineOptions& other, const CompareRequest& what,
                                                   const ProgressCallback& progress, const CancelToken* cancel) {
  TRITIUM_TRY_ASSIGN(const ScratchFolder scratch, ScratchFolder::create());
  // One after the other: both need not fit into memory together.
  std::array<std::vector<Outputs>, 2> outputs;
  for (std::size_t side = 0; side < 2; ++side) {
    const EngineOptions& options = side == 0 ? reference : other;
    auto engine = Engine::open(options);
    if (!engine.ok()) return named(engine.error(), options.model);
    for (std::size_t p = 0; p < what.prompts.size(); ++p) {
      Request request = what.request;
      request.prompt = what.prompts[p];
      const fs::path folder = scratch.path() / fmt::format("{}-{}", side, p);
      fs::create_directories(folder);
      auto done = generate(**engine, request, folder, progress, cancel);
      if (!done.ok()) return named(done.error(), options.model);
      outputs[side].push_back(std::move(*done));
    }
  }
  std::vector<ComparedPrompt> out;
  for (std::size_t p = 0; p < what.prompts.size(); ++p) {
    ComparedPrompt result{what.prompts[p], relative(outputs[1][p].video, outputs[0][p].video),
                          relative(outputs[1][p].audio, outputs[0][p].audio), 0, 0};
    TRITIUM_TRY(compare_frames(outputs[0][p], outputs[1][p], result));
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace tritium
