#include "pipeline/publish.h"

#include "base/hash.h"
#include "base/system.h"
#include "base/try.h"
#include "media/mp4_writer.h"
#include "media/png_writer.h"
#include "media/wav_writer.h"
#include "device/device.h"
#include "pipeline/plan_json.h"
#include "weights/safetensors_writer.h"

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
  return out;
}

ordered_json guard_json(const GuardReport& g) {
  return {{"problems", g.problems}, {"warnings", g.warnings}, {"mean_luma", g.mean_luma}, {"black_frames", g.black_frames}, {"flat_frames", g.flat_frames},
          {"change", g.change}, {"peak", g.peak}, {"left_db", g.left_db}, {"right_db", g.right_db}, {"clipped_share", g.clipped_share}};
}

// The JSON header's bytes identify names, shapes and layout of a file too large to hash for every clip.
Result<ordered_json> fingerprint(const SafetensorsFile& file, const fs::path& root, const CancelToken* cancel) {
  ordered_json out{{"file", fs::relative(file.path(), root).string()}, {"bytes", file.file_bytes()}};
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

Result<void> write_extras(const OutputOptions& output, const Plan& plan, const Clip& clip, const Latents& latents, const CancelToken* cancel) {
  if (!output.latents.empty()) {
    const NamedTensor tensors[] = {
        {"video", {plan.latent_channels, plan.latent_frames, plan.latent_height, plan.latent_width}, latents.video},
        {"audio", {2, plan.audio_dim, plan.audio_latents}, latents.audio}};
    TRITIUM_TRY(write_safetensors(output.latents, tensors, {{"prompt", plan.prompt}, {"seed", std::to_string(plan.seed)}}));
  }
  if (!output.frames_dir.empty()) TRITIUM_TRY(write_frames(output.frames_dir, clip, cancel));
  if (!output.wav.empty()) TRITIUM_TRY(write_wav(output.wav, clip.left, clip.right, clip.sample_rate));
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
    return Error{ErrorCode::usage, fmt::format("'{}' does not end in .mp4; MP4 is the only video format written", output.video.string()), "output", ""};
  TRITIUM_TRY_ASSIGN(AtomicFile file, AtomicFile::create(output.video));
  std::error_code code;
  const fs::space_info space = fs::space(file.temporary_path(), code);
  if (!code && space.available < plan.output_bytes)
    return Error{ErrorCode::does_not_fit,
                 fmt::format("the disk of '{}' has {} free, the video may need {}", output.video.string(), format_bytes(space.available), format_bytes(plan.output_bytes)),
                 "output", "free some space or choose another folder"};
  return file;
}

Result<std::string> weight_fingerprints(const ModelInfo& model, const CancelToken* cancel) {
  ordered_json out = ordered_json::array();
  for (const auto& part : {model.text, model.dit, model.video_vae, model.audio_vae})
    for (const SafetensorsFile& file : part->files()) {
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

Result<void> publish(AtomicFile reserved, const OutputOptions& output, const Plan& plan, const Clip& clip, const Latents& latents,
                     const GuardReport& guard, const std::string& metadata, const CancelToken* cancel, const std::function<void(int, int)>& progress) {
  const Result<void> verdict = guard.verdict();
  const fs::path target = verdict.ok() ? output.video : rejected_name(output.video);
  Mp4Options options;
  options.metadata_json = metadata;
  options.tags = {{"title", plan.prompt}, {"comment", fmt::format("Tritium {}, seed {}", version(), plan.seed)}};
  const auto written = write_mp4(clip, reserved.temporary_path(), options, cancel, progress);
  if (!written.ok()) return written.error();
  TRITIUM_TRY(write_file_atomically(sidecar_of(target), metadata + "\n"));
  if (verdict.ok()) TRITIUM_TRY(write_extras(output, plan, clip, latents, cancel));
  TRITIUM_TRY(reserved.commit_as(target));
  if (verdict.ok()) return {};
  return Error{verdict.error().code, verdict.error().message, verdict.error().field, fmt::format("the video is kept as '{}'", target.string())};
}

}  // namespace tritium
