// A job: one request of a client, from its acceptance to its files. Plain data; the store keeps it, the service changes it.
#pragma once

#include <tritium/engine.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tritium {

// queued → running → completed | failed | cancelled. A job whose worker or server died is queued again and keeps its checkpoints.
// The last three never change. A completed job has its files.
enum class JobState { queued, running, completed, failed, cancelled };
const char* job_state_name(JobState state);  // as above
std::optional<JobState> job_state_of(std::string_view name);
constexpr bool is_terminal(JobState state) { return state >= JobState::completed; }

using UnixMillis = std::int64_t;  // of the wall clock, UTC

// What a client wants.
struct JobSpec {
  Request request;              // its files exist when the job is submitted; the service keeps its own links to them
  int outputs = 1;              // 1..10 clips that differ in their seeds: seed, seed + 1, ...
  int priority = 0;             // -100..100, higher first; equal ones in the order of submission
  std::string owner;            // name of the API key; empty where none are used. Jobs of other owners do not exist for a caller.
  std::string idempotency_key;  // at most 255 bytes; of one owner: the same key is the same job
  std::string id;               // chosen by the client, [A-Za-z0-9_-]{1,64}; empty: made here
  std::string dialect;          // "videos", "comfy", "minimax"
  std::string dialect_data;     // a JSON document that the dialect wants to see again; the service does not look into it
  std::optional<double> deadline_seconds;  // from the beginning of an attempt; after it the job fails
};

struct JobError {
  ErrorCode code = ErrorCode::failure;
  std::string message, field, hint;
  std::string stage;       // where it happened, if known
  std::string last_words;  // the end of what the worker said on standard error, when it died
};

struct JobOutput {
  std::filesystem::path video, sidecar, thumbnail;  // complete files; thumbnail: a JPEG, at most 512 pixels wide
  std::uint64_t bytes = 0;                          // of the video
  std::string sha256;                               // of the video; its ETag
  std::uint64_t seed = 0;
};

struct Job {
  std::string id;
  std::int64_t sequence = 0;  // grows with every submission: the order of lists
  JobSpec spec;
  JobState state = JobState::queued;
  bool cancel_requested = false;  // a running job that is about to stop
  int attempt = 0;                // 1 while the first runs
  int max_attempts = 0;
  int queue_position = -1;                            // of a queued one: how many run before it
  std::string worker;                                 // that runs it, or ran it last
  UnixMillis created = 0, started = 0, finished = 0;  // 0: not yet
  UnixMillis expires = 0;                             // when retention removes it; 0: never or not known
  int output = 0;                                     // which one is made now, from 0
  Progress progress;                                  // of the whole job
  std::string plan_json;                              // as plan_json() prints it; known from the submission on
  Plan plan;                                          // the values decided for the first output; no stages after a restart
  std::vector<StageTiming> timings;                   // of the attempt that completed; time of checkpoints included
  std::vector<std::string> warnings;
  std::uint64_t peak_memory_bytes = 0;  // of the worker, resident
  std::vector<JobOutput> outputs;       // complete ones only
  std::optional<JobError> error;        // of a failed job; of a queued one what ended its last attempt
};

}  // namespace tritium
