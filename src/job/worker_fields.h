// The fields of everything that travels between a worker and its caller: one line per field, in the order of the declaration. Writing,
// reading and the tests all use these lists; a test fails when a struct has a field that is not listed.
#pragma once

#include "job/worker_messages.h"

#include <concepts>
#include <type_traits>

namespace tritium::fields {

// A struct of this type, constant or not.
template <class T, class Struct>
concept Of = std::same_as<std::remove_const_t<T>, Struct>;

void list(auto&& field, Of<EngineOptions> auto& o) {
  field("model", o.model);
  field("device", o.device);
  field("threads", o.threads);
  field("compute", o.compute);
  field("dump_tensors", o.dump_tensors);
  field("profile", o.profile);
  field("dit", o.dit);
  field("text_encoder", o.text_encoder);
  field("video_vae", o.video_vae);
  field("audio_vae", o.audio_vae);
  field("tokenizer", o.tokenizer);
  field("memory_budgets", o.memory_budgets);
  field("budgets_are_free", o.budgets_are_free);
  field("cache_folder", o.cache_folder);
  field("pin", o.pin);
  field("partition", o.partition);
  field("qkv_order", o.qkv_order);
  field("prefer_ref2va", o.prefer_ref2va);
}

void list(auto&& field, Of<ReferenceInput> auto& r) {
  field("kind", r.kind);
  field("file", r.file);
  field("sound", r.sound);
  field("silent", r.silent);
}

void list(auto&& field, Of<RetakeInput> auto& r) {
  field("video", r.video);
  field("frames", r.frames);
  field("seconds", r.seconds);
}

void list(auto&& field, Of<LoraInput> auto& l) {
  field("file", l.file);
  field("strength", l.strength);
  field("alpha", l.alpha);
}

void list(auto&& field, Of<Acceleration> auto& a) {
  field("reuse_velocity", a.reuse_velocity);
  field("reuse_core", a.reuse_core);
  field("easycache", a.easycache);
  field("easycache_start", a.easycache_start);
  field("easycache_end", a.easycache_end);
  field("blocks", a.blocks);
  field("draft", a.draft);
}

void list(auto&& field, Of<Request> auto& r) {
  field("prompt", r.prompt);
  field("width", r.width);
  field("height", r.height);
  field("frames", r.frames);
  field("seconds", r.seconds);
  field("steps", r.steps);
  field("seed", r.seed);
  field("video_shift", r.video_shift);
  field("audio_shift", r.audio_shift);
  field("loras", r.loras);
  field("lora_basis", r.lora_basis);
  field("force", r.force);
  field("acceleration", r.acceleration);
  field("noise", r.noise);
  field("first_frame", r.first_frame);
  field("last_frame", r.last_frame);
  field("references", r.references);
  field("official_reference_size", r.official_reference_size);
  field("retake", r.retake);
  field("sound_for", r.sound_for);
  field("video_for", r.video_for);
  field("fit", r.fit);
  field("aspect", r.aspect);
}

void list(auto&& field, Of<OutputOptions> auto& o) {
  field("video", o.video);
  field("frames_dir", o.frames_dir);
  field("wav", o.wav);
  field("latents", o.latents);
  field("thumbnail", o.thumbnail);
  field("checkpoint", o.checkpoint);
  field("checkpoint_steps", o.checkpoint_steps);
}

void list(auto&& field, Of<Adjustment> auto& a) {
  field("field", a.field);
  field("from", a.from);
  field("to", a.to);
  field("reason", a.reason);
}

void list(auto&& field, Of<DeviceShare> auto& s) {
  field("device", s.device);
  field("blocks", s.blocks);
  field("resident_blocks", s.resident_blocks);
  field("slots", s.slots);
  field("resident_bytes", s.resident_bytes);
  field("streamed_bytes", s.streamed_bytes);
  field("working_bytes", s.working_bytes);
}

void list(auto&& field, Of<StagePlan> auto& s) {
  field("name", s.name);
  field("device", s.device);
  field("precision", s.precision);
  field("weight_bytes", s.weight_bytes);
  field("working_bytes", s.working_bytes);
  field("flops", s.flops);
  field("shares", s.shares);
  field("stays", s.stays);
  field("host_bytes", s.host_bytes);
  field("transfer_bytes", s.transfer_bytes);
  field("passes", s.passes);
  field("load_seconds", s.load_seconds);
  field("seconds", s.seconds);
}

void list(auto&& field, Of<MemoryPeak> auto& m) {
  field("name", m.name);
  field("budget_bytes", m.budget_bytes);
  field("peak_bytes", m.peak_bytes);
}

void list(auto&& field, Of<LoraPlan> auto& l) {
  field("file", l.file);
  field("header_sha256", l.header_sha256);
  field("strength", l.strength);
  field("scales", l.scales);
  field("scale_text", l.scale_text);
  field("made_for", l.made_for);
  field("pairs", l.pairs);
  field("matched", l.matched);
  field("layers", l.layers);
  field("skipped", l.skipped);
  field("bytes", l.bytes);
}

void list(auto&& field, Of<Plan> auto& p) {
  field("mode", p.mode);
  field("prompt", p.prompt);
  field("width", p.width);
  field("height", p.height);
  field("frames", p.frames);
  field("steps", p.steps);
  field("seed", p.seed);
  field("video_shift", p.video_shift);
  field("audio_shift", p.audio_shift);
  field("noise", p.noise);
  field("loras", p.loras);
  field("acceleration", p.acceleration);
  field("evaluations", p.evaluations);
  field("computed_evaluations", p.computed_evaluations);
  field("blocks", p.blocks);
  field("adjustments", p.adjustments);
  field("notes", p.notes);
  field("warnings", p.warnings);
  field("text_tokens", p.text_tokens);
  field("latent_channels", p.latent_channels);
  field("latent_frames", p.latent_frames);
  field("latent_height", p.latent_height);
  field("latent_width", p.latent_width);
  field("audio_dim", p.audio_dim);
  field("audio_latents", p.audio_latents);
  field("condition_rows", p.condition_rows);
  field("rows", p.rows);
  field("video_sigmas", p.video_sigmas);
  field("audio_sigmas", p.audio_sigmas);
  field("samples", p.samples);
  field("stages", p.stages);
  field("memories", p.memories);
  field("expected_seconds", p.expected_seconds);
  field("peak_bytes", p.peak_bytes);
  field("available_bytes", p.available_bytes);
  field("output_bytes", p.output_bytes);
}

void list(auto&& field, Of<Progress> auto& p) {
  field("stage", p.stage);
  field("step", p.step);
  field("of", p.of);
  field("fraction", p.fraction);
  field("eta_seconds", p.eta_seconds);
}

void list(auto&& field, Of<StageTiming> auto& t) {
  field("stage", t.stage);
  field("seconds", t.seconds);
}

void list(auto&& field, Of<Artifact> auto& a) {
  field("video", a.video);
  field("sidecar", a.sidecar);
  field("plan", a.plan);
  field("timings", a.timings);
  field("warnings", a.warnings);
}

void list(auto&& field, Of<Error> auto& e) {
  field("code", e.code);
  field("message", e.message);
  field("field", e.field);
  field("hint", e.hint);
}

void list(auto&& field, Of<HelloMessage> auto& m) {
  field("protocol", m.protocol);
  field("version", m.version);
}

void list(auto&& field, Of<OpenMessage> auto& m) {
  field("folder", m.folder);
  field("options", m.options);
}

void list(auto&& field, Of<OpenedMessage> auto& m) {
  field("model_json", m.model_json);
  field("model_text", m.model_text);
  field("memory_budgets", m.memory_budgets);
}

void list(auto&& field, Of<PlanMessage> auto& m) {
  field("folder", m.folder);
  field("request", m.request);
}

void list(auto&& field, Of<GenerateMessage> auto& m) {
  field("folder", m.folder);
  field("request", m.request);
  field("output", m.output);
  field("cancelled", m.cancelled);
  field("previews", m.previews);
}

void list(auto&& field, Of<FailedMessage> auto& m) { field("error", m.error); }

}  // namespace tritium::fields
