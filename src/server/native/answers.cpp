#include "server/native/answers.h"

#include "server/native/translate.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium::server::native {

using nlohmann::ordered_json;

namespace {

ordered_json seconds_of(UnixMillis time) { return time == 0 ? ordered_json() : ordered_json(time / 1000); }

const char* error_code(const Error& error) {
  switch (error.code) {
    case ErrorCode::usage:
      return "invalid_value";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::conflict:
      return "conflict";
    case ErrorCode::does_not_fit:
      return "does_not_fit";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::model:
      return "model";
    case ErrorCode::device:
      return "device";
    case ErrorCode::rejected:
      return "output_rejected";
    case ErrorCode::interrupted:
      return "cancelled";
    case ErrorCode::failure:
      break;
  }
  return "failure";
}

const char* error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

ordered_json error_of(const Job& job) {
  if (job.state == JobState::cancelled) return {{"code", "cancelled"}, {"message", "the job was cancelled"}};
  if (!job.error) return nullptr;
  const JobError& e = *job.error;
  ordered_json out{{"code", error_code({e.code, "", "", ""})}, {"message", Error{e.code, e.message, e.field, e.hint}.text()}};
  if (!e.stage.empty()) out["stage"] = e.stage;
  if (!e.last_words.empty()) out["last_words"] = e.last_words;
  return out;
}

void put_notes(ordered_json& out, const Job& job, const Asked& asked) {
  out["adjustments"] = ordered_json::array();
  const auto add = [&out](const Adjustment& a) {
    out["adjustments"].push_back({{"field", a.field}, {"from", a.from}, {"to", a.to}, {"reason", a.reason}});
  };
  std::for_each(asked.adjustments.begin(), asked.adjustments.end(), add);
  std::for_each(job.plan.adjustments.begin(), job.plan.adjustments.end(), add);
  std::vector<std::string> warnings = asked.warnings;
  for (const auto* more : {&job.plan.warnings, &job.warnings})
    for (const std::string& warning : *more)
      if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
  out["warnings"] = std::move(warnings);
}

void put_outputs(ordered_json& out, const Job& job) {
  const std::string content = "/v1/videos/" + job.id + "/content";
  out["num_outputs"] = job.spec.outputs;
  out["outputs"] = ordered_json::array();
  for (std::size_t i = 0; i < job.outputs.size(); ++i) {
    const JobOutput& o = job.outputs[i];
    out["outputs"].push_back({{"index", i},
                              {"url", fmt::format("{}?variant={}", content, i)},
                              {"thumbnail_url", fmt::format("{}?variant=thumbnail&index={}", content, i)},
                              {"bytes", o.bytes},
                              {"sha256", o.sha256},
                              {"seed", o.seed}});
  }
  const bool done = job.state == JobState::completed && !job.outputs.empty();
  out["url"] = done ? ordered_json(content) : ordered_json();
  out["thumbnail_url"] = done ? ordered_json(content + "?variant=thumbnail") : ordered_json();
  out["file_path"] = nullptr;  // read by clients that share the server's disk; names of files here concern nobody else
}

void put_timings(ordered_json& out, const Job& job) {
  ordered_json timings = ordered_json::object();
  double sum = 0;
  for (const StageTiming& t : job.timings) {
    timings[t.stage] = t.seconds;
    sum += t.seconds;
  }
  out["timings"] = std::move(timings);
  out["inference_time_s"] = job.timings.empty() ? ordered_json() : ordered_json(sum);
  out["peak_memory_mb"] =
      job.peak_memory_bytes == 0 ? ordered_json() : ordered_json(static_cast<double>(job.peak_memory_bytes) / (1 << 20));
}

}  // namespace

std::string dump(const ordered_json& document) { return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

int status_of(const Error& error) {
  if (error.code == ErrorCode::model && error.field == "model") return 400;
  return http::http_status_of(error);
}

http::HttpResponse error_answer(const http::HttpRequest& request, int status, const Error& error) {
  const std::string message = error.text();
  ordered_json inner{{"message", message},
                     {"type", error_type(status)},
                     {"param", error.field.empty() ? ordered_json() : ordered_json(error.field)},
                     {"code", status == 401 ? "unauthorized" : error_code(error)}};
  if (!request.id.empty()) inner["request_id"] = request.id;
  auto out = http::HttpResponse::json(status, dump({{"error", inner}, {"detail", message}}));
  if (status == 429 || status == 503) out.headers.emplace_back("retry-after", "5");
  return out;
}

http::HttpResponse error_answer(const http::HttpRequest& request, const Error& error) {
  return error_answer(request, status_of(error), error);
}

const char* status_word(JobState state) {
  switch (state) {
    case JobState::queued:
      return "queued";
    case JobState::running:
      return "in_progress";
    case JobState::completed:
      return "completed";
    // Clients of OpenAI's API wait until a job is completed or failed, and know no other end.
    case JobState::failed:
    case JobState::cancelled:
      break;
  }
  return "failed";
}

ordered_json progress_json(const Job& job) {
  const bool running = job.state == JobState::running, completed = job.state == JobState::completed;
  const double fraction = completed ? 1 : std::clamp(job.progress.fraction, 0.0, 1.0);
  ordered_json out{{"status", status_word(job.state)}, {"state", job_state_name(job.state)}};
  out["progress"] = completed ? 100 : std::min(99, static_cast<int>(std::floor(fraction * 100)));
  out["stage"] = running && !job.progress.stage.empty() ? ordered_json(job.progress.stage) : ordered_json();
  out["step"] = running ? job.progress.step : 0;
  out["of"] = running ? job.progress.of : 0;
  out["fraction"] = fraction;
  out["eta_seconds"] = running && job.progress.eta_seconds >= 0 ? ordered_json(job.progress.eta_seconds) : ordered_json();
  out["queue_position"] = job.state == JobState::queued && job.queue_position >= 0 ? ordered_json(job.queue_position) : ordered_json();
  out["output"] = job.output;
  out["attempt"] = job.attempt;
  out["cancel_requested"] = job.cancel_requested;
  return out;
}

ordered_json video_json(const Job& job, const std::string& model) {
  const Asked asked = asked_from_json(job.spec.dialect == "videos" ? job.spec.dialect_data : "");
  const Plan& p = job.plan;
  ordered_json out{{"id", job.id}, {"object", "video"}, {"model", model}};
  out.update(progress_json(job));
  out["created_at"] = job.created / 1000;
  out["started_at"] = seconds_of(job.started);
  out["completed_at"] = job.state == JobState::completed ? seconds_of(job.finished) : ordered_json();
  out["finished_at"] = seconds_of(job.finished);
  out["expires_at"] = seconds_of(job.expires);
  out["prompt"] = job.spec.request.prompt;
  out["size"] = fmt::format("{}x{}", p.width, p.height);
  out["seconds"] = asked.seconds.empty() ? fmt::format("{:.5g}", p.seconds()) : asked.seconds;
  out["quality"] = "standard";
  out["remixed_from_video_id"] = asked.remixed_from.empty() ? ordered_json() : ordered_json(asked.remixed_from);
  out["error"] = error_of(job);
  out["task"] = p.mode;
  out["width"] = p.width;
  out["height"] = p.height;
  out["num_frames"] = p.frames;
  out["fps"] = 24;
  out["duration_seconds"] = p.seconds();
  out["num_inference_steps"] = p.steps;
  out["seed"] = p.seed;
  out["flow_shift"] = p.video_shift;
  out["audio_flow_shift"] = p.audio_shift;
  out["expected_seconds"] = p.expected_seconds;
  put_outputs(out, job);
  put_timings(out, job);
  put_notes(out, job, asked);
  if (!asked.user.empty()) out["user"] = asked.user;
  out["max_attempts"] = job.max_attempts;
  out["priority"] = job.spec.priority;
  out["dialect"] = job.spec.dialect;
  out["inputs"] = ordered_json::object();
  for (const std::string& name : input_names(job.spec.request)) out["inputs"][name] = "/v1/videos/" + job.id + "/inputs/" + name;
  out["request"] = settings_json(job);
  return out;
}

}  // namespace tritium::server::native
