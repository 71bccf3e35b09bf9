#include "server/minimax/tasks.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium::server::minimax {
namespace {

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int count(const Request& r, ReferenceInput::Kind kind) {
  return static_cast<int>(
      std::count_if(r.references.begin(), r.references.end(), [kind](const ReferenceInput& each) { return each.kind == kind; }));
}

Json usage_json(const Job& job) {
  const Request& r = job.spec.request;
  const int images = count(r, ReferenceInput::Kind::image) + (r.first_frame.empty() ? 0 : 1) + (r.last_frame.empty() ? 0 : 1);
  const double seconds = std::round(job.plan.seconds() * 100) / 100;
  return {{"total_seconds", seconds}, {"output_seconds", seconds}, {"input_image_count", images}};
}

// What became of the wish "768P": the shorter side that the model makes.
std::string resolution_of(const Job& job, const Creation& wish) {
  const int edge = std::min(job.plan.width, job.plan.height);
  return edge > 0 ? fmt::format("{}P", edge) : wish.resolution;
}

Json adjustments_json(const Job& job, const Creation& wish) {
  Json out = Json::array();
  for (const Note& n : wish.notes) out.push_back({{"field", n.field}, {"from", n.from}, {"to", n.to}, {"reason", n.reason}});
  for (const Adjustment& a : job.plan.adjustments)
    out.push_back({{"field", a.field}, {"from", a.from}, {"to", a.to}, {"reason", a.reason}});
  return out;
}

}  // namespace

std::string encode_creation(const Creation& c) {
  Json notes = Json::array();
  for (const Note& n : c.notes) notes.push_back({{"field", n.field}, {"from", n.from}, {"to", n.to}, {"reason", n.reason}});
  return text_of({{"version", c.version},
                  {"model", c.model},
                  {"resolution", c.resolution},
                  {"ratio", c.ratio},
                  {"duration", c.duration},
                  {"callback_url", c.callback_url},
                  {"link_base", c.link_base},
                  {"notes", notes}});
}

Creation decode_creation(const std::string& text) {
  Creation out;
  const Json in = Json::parse(text, nullptr, false);
  if (!in.is_object()) return out;
  if (in.contains("version") && in["version"].is_number_integer()) out.version = in["version"].get<int>();
  if (in.contains("duration") && in["duration"].is_number_integer()) out.duration = in["duration"].get<std::int64_t>();
  out.model = text_at(in, "model");
  out.resolution = text_at(in, "resolution");
  out.ratio = text_at(in, "ratio");
  out.callback_url = text_at(in, "callback_url");
  out.link_base = text_at(in, "link_base");
  if (in.contains("notes") && in["notes"].is_array())
    for (const Json& n : in["notes"])
      if (n.is_object()) out.notes.push_back({text_at(n, "field"), text_at(n, "from"), text_at(n, "to"), text_at(n, "reason")});
  return out;
}

const char* status_word(JobState state) {
  switch (state) {
    case JobState::queued:
      return "queued";
    case JobState::running:
      return "running";
    case JobState::completed:
      return "succeeded";
    case JobState::failed:
      return "failed";
    case JobState::cancelled:
      return "cancelled";
  }
  return "failed";
}

const char* status_word_v1(JobState state) {
  switch (state) {
    case JobState::queued:
      return "Queueing";
    case JobState::running:
      return "Processing";
    case JobState::completed:
      return "Success";
    case JobState::failed:
    case JobState::cancelled:
      return "Fail";
  }
  return "Fail";
}

Json task_json(const Job& job, const std::string& url) {
  const Creation wish = decode_creation(job.spec.dialect_data);
  const std::int64_t updated = std::max({job.created, job.started, job.finished}) / 1000;
  Json out{{"id", job.id},
           {"model", wish.model},
           {"status", status_word(job.state)},
           {"created_at", job.created / 1000},
           {"updated_at", updated},
           {"resolution", resolution_of(job, wish)},
           {"duration", wish.duration},
           {"ratio", wish.ratio.empty() ? "adaptive" : wish.ratio},
           {"task_type", "generation"},
           {"modality", "video"}};
  if (job.state == JobState::completed) {
    out["content"] = {{"url", url}};
    out["usage"] = usage_json(job);
  }
  if (job.state == JobState::failed && job.error) {
    const Error error{job.error->code, job.error->message, job.error->field, job.error->hint};
    out["error"] = {{"code", std::to_string(inner_code(job.error->code == ErrorCode::usage ? 400 : 500))}, {"message", error.text()}};
  }
  // Beyond the hosted interface: how far it is, and what was changed.
  if (job.state == JobState::running) out["progress"] = std::lround(100 * job.progress.fraction);
  if (const Json adjustments = adjustments_json(job, wish); !adjustments.empty()) out["adjustments"] = adjustments;
  return out;
}

int inner_code(int http_status) {
  switch (http_status) {
    case 401:
    case 403:
      return 1004;
    case 429:
      return 1002;
    default:
      return http_status >= 500 ? 1000 : 2013;
  }
}

Json base_resp(int code, const std::string& message) { return {{"status_code", code}, {"status_msg", message}}; }

Json error_json(int status, const Error& error, const std::string& request_id) {
  const char* type = status == 401 || status == 403 ? "authorized_error"
                     : status == 422                ? "unprocessable_entity_error"
                     : status == 429                ? "rate_limit_error"
                     : status == 503                ? "overloaded_error"
                     : status >= 500                ? "server_error"
                                                    : "bad_request_error";
  return {{"type", "error"},
          {"error",
           {{"type", type}, {"message", fmt::format("{} ({})", error.text(), inner_code(status))}, {"http_code", std::to_string(status)}}},
          {"request_id", request_id}};
}

}  // namespace tritium::server::minimax
