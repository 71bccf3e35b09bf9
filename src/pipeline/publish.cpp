#include "pipeline/publish.h"

#include "base/hash.h"
#include "base/system.h"
#include "base/try.h"
#include "device/device.h"
#include "pipeline/modes.h"
#include "pipeline/plan_json.h"

#include <fmt/format.h>

namespace tritium {
namespace fs = std::filesystem;
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kWholeHashBytes = std::uint64_t{64} << 20;

template <class T>
void put(ordered_json& out, const char* key, const std::optional<T>& value) {
  if (value) out[key] = *value;
}

// Where it lies on this machine concerns nobody who gets the clip.
std::string name_of(const fs::path& file) { return file.filename().string(); }

ordered_json reference_json(const ReferenceInput& r) {
  constexpr const char* kKinds[] = {"image", "video", "audio"};
  ordered_json out{{"kind", kKinds[static_cast<int>(r.kind)]}, {"file", name_of(r.file)}};
  if (!r.sound.empty()) out["sound"] = name_of(r.sound);
  if (r.silent) out["silent"] = true;
  return out;
}

ordered_json request_json(const Request& r) {
  ordered_json out{{"prompt", r.prompt}};
  put(out, "width", r.width);
  put(out, "height", r.height);
  put(out, "frames", r.frames);
  put(out, "seconds", r.seconds);
  put(out, "steps", r.steps);
  put(out, "seed", r.seed);
  put(out, "video_shift", r.video_shift);
  put(out, "audio_shift", r.audio_shift);
  out["noise"] = r.noise;
  const auto file = [&out](const char* key, const fs::path& path) {
    if (!path.empty()) out[key] = name_of(path);
  };
  file("first_frame", r.first_frame);
  file("last_frame", r.last_frame);
  file("sound_for", r.sound_for);
  file("video_for", r.video_for);
  if (!r.aspect.empty()) out["aspect"] = r.aspect;
  for (const LoraInput& lora : r.loras) {
    ordered_json entry{{"file", name_of(lora.file)}, {"strength", lora.strength}};
    put(entry, "alpha", lora.alpha);
    out["loras"].push_back(std::move(entry));
  }
  file("lora_basis", r.lora_basis);
  if (r.force) out["force"] = true;
  if (r.acceleration.any()) out["acceleration"] = to_json(r.acceleration);
  for (const ReferenceInput& reference : r.references) out["references"].push_back(reference_json(reference));
  if (!r.retake.video.empty())
    out["retake"] = {{"video", name_of(r.retake.video)}, {"frames", r.retake.frames}, {"seconds", r.retake.seconds}};
  constexpr const char* kFits[] = {"cover", "contain", "stretch"};
  if (decide_mode(r).ok() && *decide_mode(r) != Mode::t2va) out["fit"] = kFits[static_cast<int>(r.fit)];
  return out;
}

ordered_json guard_json(const GuardReport& g) {
  return {{"problems", g.problems},
          {"warnings", g.warnings},
          {"mean_luma", g.mean_luma},
          {"black_frames", g.black_frames},
          {"flat_frames", g.flat_frames},
          {"change", g.change},
          {"peak", g.peak},
          {"left_db", g.left_db},
          {"right_db", g.right_db},
          {"clipped_share", g.clipped_share}};
}

// The JSON header's bytes identify names, shapes and layout of a file too large to hash for every clip.
Result<ordered_json> fingerprint(const TensorFile& file, const fs::path& root, const CancelToken* cancel) {
  // Not fs::relative(): files are often links into a cache, whose place on this machine concerns nobody.
  ordered_json out{{"file", file.path().lexically_relative(root).string()}, {"bytes", file.file_bytes()}};
  if (file.file_bytes() <= kWholeHashBytes) {
    TRITIUM_TRY_ASSIGN(out["sha256"], sha256_file(file.path(), cancel));
    return out;
  }
  std::string names;
  for (const auto& [name, tensor] : file.header().tensors)
    names += fmt::format("{}:{}:{}:{}\n", name, dtype_name(tensor.dtype), shape_text(tensor.shape), tensor.offset);
  out["header_sha256"] = sha256_hex(names);
  return out;
}

// Refuses names that cannot be written before anything is computed. Nothing is created.
Result<void> check_extras(const OutputOptions& output) {
  fs::path frames = output.frames_dir;
  std::error_code ignored;
  while (!frames.empty() && !fs::exists(frames, ignored)) frames = frames.has_parent_path() ? frames.parent_path() : ".";
  if (!frames.empty()) frames /= "frame.png";
  const std::pair<const char*, fs::path> files[] = {
      {"frames_dir", frames}, {"wav", output.wav}, {"latents", output.latents}, {"thumbnail", output.thumbnail}};
  for (const auto& [field, path] : files) {
    if (path.empty()) continue;
    if (path.lexically_normal() == output.video.lexically_normal())
      return Error{ErrorCode::usage, fmt::format("'{}' is the name of the video too", path.string()), field, ""};
    if (const auto probe = AtomicFile::create(path); !probe.ok())
      return Error{probe.error().code, probe.error().message, field, probe.error().hint};
  }
  return {};
}

}  // namespace

fs::path sidecar_of(const fs::path& video) { return fs::path(video) += ".json"; }

fs::path rejected_name(const fs::path& video) {
  fs::path out = video;
  out.replace_extension();
  return (out += ".rejected") += video.extension();
}

Result<AtomicFile> reserve_output(const OutputOptions& output, const Plan& plan) {
  if (output.video.empty()) return Error{ErrorCode::usage, "no output file given", "output", ""};
  if (output.video.extension() != ".mp4")
    return Error{ErrorCode::usage, fmt::format("'{}' does not end in .mp4; MP4 is the only video format written", output.video.string()),
                 "output", ""};
  TRITIUM_TRY(check_extras(output));
  TRITIUM_TRY_ASSIGN(AtomicFile file, AtomicFile::create(output.video));
  std::error_code code;
  const fs::space_info space = fs::space(file.temporary_path(), code);
  if (!code && space.available < plan.output_bytes)
    return Error{ErrorCode::does_not_fit,
                 fmt::format("the disk of '{}' has {} free, the video may need {}", output.video.string(), format_bytes(space.available),
                             format_bytes(plan.output_bytes)),
                 "output", "free some space or choose another folder"};
  return file;
}

Result<std::string> weight_fingerprints(const ModelInfo& model, const CancelToken* cancel) {
  ordered_json out = ordered_json::array();
  for (const auto& part : {model.text, model.dit, model.video_vae, model.audio_vae})
    for (const TensorFile& file : part->checkpoint().files()) {
      TRITIUM_TRY_ASSIGN(ordered_json entry, fingerprint(file, model.root, cancel));
      out.push_back(std::move(entry));
    }
  return out.dump();
}

std::string metadata_json(const MetadataInputs& in) {
  ordered_json out;
  out["generator"] = "tritium";
  out["version"] = version();
  out["ggml"] = backend_library_version();
  out["created"] = utc_timestamp();
  out["request"] = request_json(in.request);
  out["plan"] = to_json(in.plan);
  out["model"] = {{"name", in.model.name}, {"weights", ordered_json::parse(in.weights_json)}};
  out["threads"] = in.threads;
  out["timings"] = ordered_json::object();
  for (const StageTiming& t : in.timings) out["timings"][t.stage] = t.seconds;
  out["peak_resident_bytes"] = peak_resident_bytes();
  out["guard"] = guard_json(in.guard);
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace tritium
