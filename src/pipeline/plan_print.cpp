// The plan for people and for machines.
#include "pipeline/acceleration.h"
#include "pipeline/plan_json.h"

#include <fmt/format.h>

namespace tritium {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const StagePlan& s) {
  ordered_json out{{"stage", s.name},
                   {"device", s.device},
                   {"precision", s.precision},
                   {"weight_bytes", s.weight_bytes},
                   {"working_bytes", s.working_bytes},
                   {"flops", s.flops},
                   {"host_bytes", s.host_bytes},
                   {"transfer_bytes", s.transfer_bytes},
                   {"passes", s.passes},
                   {"stays", s.stays},
                   {"load_seconds", s.load_seconds},
                   {"seconds", s.seconds}};
  out["shares"] = ordered_json::array();
  for (const DeviceShare& share : s.shares)
    out["shares"].push_back({{"device", share.device},
                             {"blocks", share.blocks},
                             {"resident_blocks", share.resident_blocks},
                             {"slots", share.slots},
                             {"resident_bytes", share.resident_bytes},
                             {"streamed_bytes", share.streamed_bytes},
                             {"working_bytes", share.working_bytes}});
  return out;
}

ordered_json memories_json(const std::vector<MemoryPeak>& memories) {
  ordered_json out = ordered_json::array();
  for (const MemoryPeak& m : memories) out.push_back({{"memory", m.name}, {"peak_bytes", m.peak_bytes}, {"budget_bytes", m.budget_bytes}});
  return out;
}

}  // namespace

ordered_json memory_json(const std::vector<StagePlan>& stages, const std::vector<MemoryPeak>& memories) {
  ordered_json out{{"stages", ordered_json::array()}, {"memories", memories_json(memories)}};
  for (const StagePlan& s : stages) out["stages"].push_back(to_json(s));
  return out;
}

ordered_json to_json(const Adjustment& a) { return {{"field", a.field}, {"from", a.from}, {"to", a.to}, {"reason", a.reason}}; }

ordered_json to_json(const LoraPlan& l) {
  ordered_json out{{"file", l.file},         {"header_sha256", l.header_sha256},
                   {"strength", l.strength}, {"scales", l.scales},
                   {"scale", l.scale_text},  {"pairs", l.pairs},
                   {"matched", l.matched},   {"layers", l.layers}};
  if (!l.made_for.empty()) out["made_for"] = l.made_for;
  if (!l.skipped.empty()) out["skipped"] = l.skipped;
  out["bytes"] = l.bytes;
  return out;
}

ordered_json to_json(const Acceleration& a) {
  ordered_json out = ordered_json::object();
  if (a.reuse_velocity > 1) out["reuse_velocity"] = a.reuse_velocity;
  if (a.reuse_core > 1) out["reuse_core"] = a.reuse_core;
  if (a.easycache) out["easycache"] = {{"threshold", *a.easycache}, {"start", a.easycache_start}, {"end", a.easycache_end}};
  if (a.blocks) out["blocks"] = *a.blocks;
  if (a.draft) out["draft"] = true;
  return out;
}

namespace {

ordered_json acceleration_json(const Plan& p) {
  ordered_json out = to_json(p.acceleration);
  out["evaluations"] = p.evaluations;
  if (p.computed_evaluations) out["computed_evaluations"] = *p.computed_evaluations;
  if (p.acceleration.blocks) out["blocks_of_model"] = p.blocks;
  return out;
}

}  // namespace

ordered_json to_json(const Plan& p) {
  ordered_json out;
  out["mode"] = p.mode;
  out["prompt"] = p.prompt;
  out["width"] = p.width;
  out["height"] = p.height;
  out["frames"] = p.frames;
  out["fps"] = 24;
  out["seconds"] = p.seconds();
  out["steps"] = p.steps;
  out["seed"] = p.seed;
  out["video_shift"] = p.video_shift;
  out["audio_shift"] = p.audio_shift;
  out["noise"] = p.noise;
  if (!p.loras.empty()) out["loras"] = ordered_json::array();
  for (const LoraPlan& l : p.loras) out["loras"].push_back(to_json(l));
  if (p.acceleration.any()) out["acceleration"] = acceleration_json(p);
  out["adjustments"] = ordered_json::array();
  for (const Adjustment& a : p.adjustments) out["adjustments"].push_back(to_json(a));
  if (!p.notes.empty()) out["notes"] = p.notes;
  out["warnings"] = p.warnings;
  out["text_tokens"] = p.text_tokens;
  out["video_latents"] = {p.latent_channels, p.latent_frames, p.latent_height, p.latent_width};
  out["audio_latents"] = {2, p.audio_dim, p.audio_latents};
  out["condition_rows"] = p.condition_rows;
  out["rows"] = p.rows;
  out["samples"] = p.samples;
  out["sigmas"] = {{"video", p.video_sigmas}, {"audio", p.audio_sigmas}};
  out["stages"] = ordered_json::array();
  for (const StagePlan& s : p.stages) out["stages"].push_back(to_json(s));
  out["memories"] = memories_json(p.memories);
  out["expected_seconds"] = p.expected_seconds;
  out["peak_bytes"] = p.peak_bytes;
  out["available_bytes"] = p.available_bytes;
  out["output_bytes"] = p.output_bytes;
  return out;
}

std::string plan_json(const Plan& plan) { return to_json(plan).dump(2, ' ', false, ordered_json::error_handler_t::replace); }

std::string plan_text(const Plan& p) {
  std::string out = fmt::format("{}x{}, {} frames at 24 fps ({:.2f} s), {} steps, seed {}, shifts {:g}/{:g}\n", p.width, p.height, p.frames,
                                p.seconds(), p.steps, p.seed, p.video_shift, p.audio_shift);
  out += fmt::format("{} text tokens; latents: video {}x{}x{}x{}, audio 2x{}x{}; {} rows in the sequence\n", p.text_tokens,
                     p.latent_channels, p.latent_frames, p.latent_height, p.latent_width, p.audio_dim, p.audio_latents, p.rows);
  if (p.acceleration.any()) out += fmt::format("accelerated: {}\n", acceleration_text(p));
  out += memory_text(p.stages, p.memories);
  for (const std::string& n : p.notes) out += fmt::format("note: {}\n", n);
  for (const Adjustment& a : p.adjustments) out += fmt::format("note: {} {} -> {} ({})\n", a.field, a.from, a.to, a.reason);
  for (const std::string& w : p.warnings) out += fmt::format("warning: {}\n", w);
  return out;
}

}  // namespace tritium
