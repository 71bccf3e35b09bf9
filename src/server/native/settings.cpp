// What a job was asked for, as a body that can be posted again, and what the dialect remembers beside it.
#include "pipeline/plan_json.h"
#include "server/native/answers.h"
#include "server/native/translate.h"

#include <fmt/format.h>
#include <charconv>
#include <nlohmann/json.hpp>

namespace tritium::server::native {
namespace fs = std::filesystem;

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr const char* kKinds[] = {"image", "video", "audio"};
constexpr const char* kFits[] = {"cover", "contain", "stretch"};

template <class T>
void put(ordered_json& out, const char* key, const std::optional<T>& value) {
  if (value) out[key] = *value;
}

ordered_json adjustments_json(const std::vector<Adjustment>& adjustments) {
  ordered_json out = ordered_json::array();
  for (const Adjustment& a : adjustments) out.push_back({{"field", a.field}, {"from", a.from}, {"to", a.to}, {"reason", a.reason}});
  return out;
}

ordered_json references_json(const Request& request, const std::string& own) {
  ordered_json out = ordered_json::array();
  for (std::size_t i = 0; i < request.references.size(); ++i) {
    const ReferenceInput& reference = request.references[i];
    ordered_json entry{{"type", kKinds[static_cast<int>(reference.kind)]}, {"uri", fmt::format("{}references/{}", own, i)}};
    if (!reference.sound.empty()) entry["sound"] = fmt::format("{}references/{}/sound", own, i);
    if (reference.silent) entry["silent"] = true;
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace

std::string to_json(const Asked& asked) {
  const ordered_json out{{"seconds", asked.seconds},
                         {"user", asked.user},
                         {"remixed_from", asked.remixed_from},
                         {"adjustments", adjustments_json(asked.adjustments)},
                         {"warnings", asked.warnings}};
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Asked asked_from_json(const std::string& text) {
  Asked out;
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return out;
  try {
    out.seconds = parsed.value("seconds", "");
    out.user = parsed.value("user", "");
    out.remixed_from = parsed.value("remixed_from", "");
    out.warnings = parsed.value("warnings", std::vector<std::string>());
    for (const json& a : parsed.value("adjustments", json::array()))
      out.adjustments.push_back({a.at("field"), a.at("from"), a.at("to"), a.at("reason")});
  } catch (const json::exception&) { return {}; }  // of another version
  return out;
}

ordered_json settings_json(const Job& job) {
  const Request& r = job.spec.request;
  const std::string own = "tritium:" + job.id + "/";
  ordered_json out{{"prompt", r.prompt}};
  put(out, "width", r.width);
  put(out, "height", r.height);
  if (!r.aspect.empty()) out["aspect_ratio"] = r.aspect;
  put(out, "num_frames", r.frames);
  put(out, "seconds", r.seconds);
  put(out, "num_inference_steps", r.steps);
  out["seed"] = job.plan.seed;
  put(out, "flow_shift", r.video_shift);
  put(out, "audio_flow_shift", r.audio_shift);
  out["noise"] = r.noise;
  for (const LoraInput& lora : r.loras) {
    ordered_json entry{{"name", lora.file.stem().string()}, {"scale", lora.strength}};
    put(entry, "alpha", lora.alpha);
    out["lora"].push_back(std::move(entry));
  }
  if (r.force) out["force"] = true;
  if (r.acceleration.any()) out["acceleration"] = tritium::to_json(r.acceleration);
  for (const char* name : {"first_frame", "last_frame", "sound_for", "video_for"})
    if (!input_of(r, name).empty()) out[name] = own + name;
  if (!r.references.empty()) out["references"] = references_json(r, own);
  if (r.official_reference_size) out["reference_size"] = "official";
  if (!r.retake.video.empty()) out["retake"] = {{"video", own + "retake"}, {"frames", r.retake.frames}, {"seconds", r.retake.seconds}};
  if (r.fit != Fit::cover) out["fit"] = kFits[static_cast<int>(r.fit)];
  if (job.spec.outputs > 1) out["num_outputs_per_prompt"] = job.spec.outputs;
  if (job.spec.priority != 0) out["priority"] = job.spec.priority;
  put(out, "deadline_seconds", job.spec.deadline_seconds);
  return out;
}

fs::path input_of(const Request& request, std::string_view name) {
  if (name == "first_frame") return request.first_frame;
  if (name == "last_frame") return request.last_frame;
  if (name == "sound_for") return request.sound_for;
  if (name == "video_for") return request.video_for;
  if (name == "retake") return request.retake.video;
  constexpr std::string_view kReferences = "references/", kSound = "/sound";
  if (!name.starts_with(kReferences)) return {};
  name.remove_prefix(kReferences.size());
  const bool sound = name.ends_with(kSound);
  if (sound) name.remove_suffix(kSound.size());
  std::size_t index = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (code != std::errc() || end != name.data() + name.size() || index >= request.references.size()) return {};
  return sound ? request.references[index].sound : request.references[index].file;
}

std::vector<std::string> input_names(const Request& request) {
  std::vector<std::string> out;
  for (const char* name : {"first_frame", "last_frame", "sound_for", "video_for", "retake"})
    if (!input_of(request, name).empty()) out.emplace_back(name);
  for (std::size_t i = 0; i < request.references.size(); ++i) {
    out.push_back(fmt::format("references/{}", i));
    if (!request.references[i].sound.empty()) out.push_back(fmt::format("references/{}/sound", i));
  }
  return out;
}

}  // namespace tritium::server::native
