// /api/jobs: the newer view of queue and history together.
#include "server/comfy/facade.h"
#include "server/comfy/names.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>

namespace tritium::server::comfy {
namespace {

constexpr std::size_t kMostJobs = 10000;

http::HttpResponse plain_error(int status, const std::string& text) { return json_response(status, {{"error", text}}); }

struct ListWish {
  std::vector<JobState> states;
  std::string workflow;
  bool by_duration = false, ascending = false;
  std::optional<std::size_t> limit;
  std::size_t offset = 0;
};

std::optional<JobState> state_of(const std::string& word) {
  if (word == "pending") return JobState::queued;
  if (word == "in_progress") return JobState::running;
  if (word == "completed") return JobState::completed;
  if (word == "failed") return JobState::failed;
  if (word == "cancelled") return JobState::cancelled;
  return std::nullopt;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::optional<std::int64_t> whole(const std::string& text) {
  std::int64_t out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc{} && end == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

// Nothing, or what is wrong.
std::optional<std::string> read_wish(const http::HttpRequest& request, ListWish& out) {
  const std::string words = lower(request.query_value("status").value_or(""));
  for (std::size_t at = 0; at <= words.size() && !words.empty();) {
    const std::size_t end = std::min(words.find(',', at), words.size());
    std::string word = words.substr(at, end - at);
    std::erase(word, ' ');
    at = end + 1;
    if (word.empty()) continue;
    const auto state = state_of(word);
    if (!state) return fmt::format("Invalid status value(s): {}. Valid values: pending, in_progress, completed, failed, cancelled", word);
    out.states.push_back(*state);
  }
  out.workflow = request.query_value("workflow_id").value_or("");
  const std::string by = lower(request.query_value("sort_by").value_or("created_at")),
                    order = lower(request.query_value("sort_order").value_or("desc"));
  if (by != "created_at" && by != "execution_duration") return "sort_by must be 'created_at' or 'execution_duration'";
  if (order != "asc" && order != "desc") return "sort_order must be 'asc' or 'desc'";
  out.by_duration = by == "execution_duration";
  out.ascending = order == "asc";
  if (const auto limit = request.query_value("limit")) {
    const auto number = whole(*limit);
    if (!number) return "limit must be an integer";
    if (*number <= 0) return "limit must be a positive integer";
    out.limit = static_cast<std::size_t>(*number);
  }
  if (const auto offset = request.query_value("offset"))
    out.offset = static_cast<std::size_t>(std::max<std::int64_t>(0, whole(*offset).value_or(0)));
  return std::nullopt;
}

bool visible(const FacadePtr& facade, const Job& job) { return !is_terminal(job.state) || !facade->hidden.contains(job.id); }

http::HttpResponse list_jobs(const FacadePtr& facade, const http::HttpRequest& request) {
  ListWish wish;
  if (const auto wrong = read_wish(request, wish)) return plain_error(400, *wrong);
  std::vector<Job> jobs = facade->jobs(request.owner, wish.states, wish.ascending, kMostJobs);
  std::erase_if(jobs, [&](const Job& job) { return !visible(facade, job); });
  if (!wish.workflow.empty())
    std::erase_if(jobs, [&](const Job& job) { return decode_record(job.spec.dialect_data).workflow_id() != wish.workflow; });
  if (wish.by_duration) {
    const auto seconds = [](const Job& job) { return job.started > 0 && job.finished > 0 ? job.finished - job.started : 0; };
    std::stable_sort(jobs.begin(), jobs.end(),
                     [&](const Job& a, const Job& b) { return wish.ascending ? seconds(a) < seconds(b) : seconds(a) > seconds(b); });
  }
  Json out = Json::array();
  const std::size_t begin = std::min(wish.offset, jobs.size());
  const std::size_t end = wish.limit ? std::min(begin + *wish.limit, jobs.size()) : jobs.size();
  for (std::size_t i = begin; i < end; ++i) out.push_back(job_json(jobs[i], decode_record(jobs[i].spec.dialect_data), false));
  return json_response(200, {{"jobs", out},
                             {"pagination",
                              {{"offset", wish.offset},
                               {"limit", wish.limit ? Json(*wish.limit) : Json(nullptr)},
                               {"total", jobs.size()},
                               {"has_more", end < jobs.size()}}}});
}

http::HttpResponse get_job(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto job = facade->job(request.owner, request.params.at("id"));
  if (!job.ok() || !visible(facade, *job)) return plain_error(404, "Job not found");
  return json_response(200, job_json(*job, decode_record(job->spec.dialect_data), true));
}

bool cancel_job(const FacadePtr& facade, const std::string& owner, const std::string& id) {
  const auto job = facade->job(owner, id);
  return job.ok() && !is_terminal(job->state) && facade->service.cancel(id, owner).ok();
}

http::HttpResponse cancel_many(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto body = body_object(request, false);
  if (!body.ok()) return plain_error(400, "Request body must be valid JSON");
  const auto ids = body->find("job_ids");
  if (ids == body->end() || !ids->is_array()) return plain_error(400, "job_ids must be a list");
  Json invalid = Json::array();
  for (const Json& each : *ids)
    if (!each.is_string() || !is_uuid(each.get_ref<const std::string&>())) invalid.push_back(each.is_string() ? each : Json(text_of(each)));
  if (!invalid.empty()) return json_response(400, {{"error", "job_ids contains invalid id(s)"}, {"invalid_ids", invalid}});
  bool any = false;
  for (const std::string& id : ids_in(*body, "job_ids")) any = cancel_job(facade, request.owner, id) || any;
  return json_response(200, {{"cancelled", any}});
}

}  // namespace

void add_job_routes(http::Router& router, const FacadePtr& facade) {
  router.add("GET", "/api/jobs", [facade](const http::HttpRequest& request) { return list_jobs(facade, request); });
  router.add("GET", "/api/jobs/{id}", [facade](const http::HttpRequest& request) { return get_job(facade, request); });
  router.add("POST", "/api/jobs/cancel", [facade](const http::HttpRequest& request) { return cancel_many(facade, request); });
  router.add("POST", "/api/jobs/{id}/cancel", [facade](const http::HttpRequest& request) {
    return json_response(200, {{"cancelled", cancel_job(facade, request.owner, request.params.at("id"))}});
  });
}

}  // namespace tritium::server::comfy
