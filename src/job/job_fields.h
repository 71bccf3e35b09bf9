// The fields of jobs as they are stored, in the order of the declaration (as in worker_fields.h; the same test holds).
#pragma once

#include "job/job.h"
#include "job/worker_fields.h"

namespace tritium::fields {

void list(auto&& field, Of<JobSpec> auto& s) {
  field("request", s.request);
  field("outputs", s.outputs);
  field("priority", s.priority);
  field("owner", s.owner);
  field("idempotency_key", s.idempotency_key);
  field("id", s.id);
  field("dialect", s.dialect);
  field("dialect_data", s.dialect_data);
  field("deadline_seconds", s.deadline_seconds);
}

void list(auto&& field, Of<JobError> auto& e) {
  field("code", e.code);
  field("message", e.message);
  field("field", e.field);
  field("hint", e.hint);
  field("stage", e.stage);
  field("last_words", e.last_words);
}

void list(auto&& field, Of<JobOutput> auto& o) {
  field("video", o.video);
  field("sidecar", o.sidecar);
  field("thumbnail", o.thumbnail);
  field("bytes", o.bytes);
  field("sha256", o.sha256);
  field("seed", o.seed);
}

void list(auto&& field, Of<Job> auto& j) {
  field("id", j.id);
  field("sequence", j.sequence);
  field("spec", j.spec);
  field("state", j.state);
  field("cancel_requested", j.cancel_requested);
  field("attempt", j.attempt);
  field("max_attempts", j.max_attempts);
  field("queue_position", j.queue_position);
  field("worker", j.worker);
  field("created", j.created);
  field("started", j.started);
  field("finished", j.finished);
  field("expires", j.expires);
  field("output", j.output);
  field("progress", j.progress);
  field("plan_json", j.plan_json);
  field("plan", j.plan);
  field("timings", j.timings);
  field("warnings", j.warnings);
  field("peak_memory_bytes", j.peak_memory_bytes);
  field("outputs", j.outputs);
  field("error", j.error);
}

}  // namespace tritium::fields
