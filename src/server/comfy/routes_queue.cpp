// /queue, /interrupt, /history.
#include "server/comfy/facade.h"

#include <algorithm>
#include <charconv>

namespace tritium::server::comfy {
namespace {

constexpr std::size_t kMostJobs = 10000;  // in one answer

std::optional<std::int64_t> query_number(const http::HttpRequest& request, const char* name) {
  const auto text = request.query_value(name);
  if (!text) return std::nullopt;
  std::int64_t out = 0;
  const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), out);
  return code == std::errc{} && end == text->data() + text->size() ? std::optional(out) : std::nullopt;
}

http::HttpResponse get_queue(const FacadePtr& facade, const http::HttpRequest& request) {
  Json running = Json::array(), pending = Json::array();
  std::vector<std::pair<int, Json>> waiting;
  for (const Job& job : facade->jobs(request.owner, {JobState::queued, JobState::running}, true, kMostJobs)) {
    const Json item = queue_item(job, decode_record(job.spec.dialect_data));
    if (job.state == JobState::running) {
      running.push_back(item);
    } else {
      waiting.emplace_back(job.queue_position, item);
    }
  }
  std::stable_sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [position, item] : waiting) pending.push_back(std::move(item));
  return json_response(200, {{"queue_running", running}, {"queue_pending", pending}});
}

// Only what waits; a job that begins meanwhile runs on, as in ComfyUI.
void take_out(const FacadePtr& facade, const std::string& owner, const std::string& id) {
  const auto job = facade->job(owner, id);
  if (job.ok() && job->state == JobState::queued) static_cast<void>(facade->service.cancel(id, owner).ok());
}

http::HttpResponse post_queue(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto body = body_object(request, false);
  if (!body.ok()) return error_response(body.error());
  if (flag_in(*body, "clear"))
    for (const Job& job : facade->jobs(request.owner, {JobState::queued}, true, kMostJobs)) take_out(facade, request.owner, job.id);
  for (const std::string& id : ids_in(*body, "delete")) take_out(facade, request.owner, id);
  return http::HttpResponse::empty(200);
}

http::HttpResponse interrupt(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto body = body_object(request, true);
  if (!body.ok()) return error_response(body.error());
  const auto id = body->find("prompt_id");
  if (id != body->end() && id->is_string() && !id->get_ref<const std::string&>().empty()) {
    const auto job = facade->job(request.owner, id->get<std::string>());
    if (job.ok() && job->state == JobState::running) static_cast<void>(facade->service.cancel(job->id, request.owner).ok());
    return http::HttpResponse::empty(200);
  }
  for (const Job& job : facade->jobs(request.owner, {JobState::running}, true, kMostJobs))
    static_cast<void>(facade->service.cancel(job.id, request.owner).ok());
  return http::HttpResponse::empty(200);
}

const std::vector<JobState> kFinished{JobState::completed, JobState::failed, JobState::cancelled};

http::HttpResponse get_history(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto most = query_number(request, "max_items");
  const auto offset = query_number(request, "offset");
  if ((request.query_value("max_items") && !most) || (request.query_value("offset") && !offset))
    return error_response(400, "invalid_request", "max_items and offset are whole numbers");
  std::vector<Job> jobs = facade->jobs(request.owner, kFinished, false, kMostJobs);
  std::reverse(jobs.begin(), jobs.end());
  std::erase_if(jobs, [&](const Job& job) { return !in_history(job) || facade->hidden.contains(job.id); });
  // Without an offset the newest ones, with it those from there on, oldest first.
  const auto count = static_cast<std::int64_t>(jobs.size());
  const std::int64_t wanted = std::clamp<std::int64_t>(most.value_or(count), 0, count);
  const std::int64_t begin = std::clamp<std::int64_t>(offset.value_or(-1) < 0 ? count - wanted : *offset, 0, count);
  Json out = Json::object();
  for (std::int64_t i = begin; i < std::min(begin + wanted, count); ++i) {
    const Job& job = jobs[static_cast<std::size_t>(i)];
    out[job.id] = history_entry(job, decode_record(job.spec.dialect_data));
  }
  return json_response(200, out);
}

http::HttpResponse get_history_of(const FacadePtr& facade, const http::HttpRequest& request) {
  const std::string id = request.params.at("id");
  Json out = Json::object();
  const auto job = facade->job(request.owner, id);
  if (job.ok() && in_history(*job) && !facade->hidden.contains(id)) out[id] = history_entry(*job, decode_record(job->spec.dialect_data));
  return json_response(200, out);
}

http::HttpResponse post_history(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto body = body_object(request, false);
  if (!body.ok()) return error_response(body.error());
  std::vector<std::string> ids;
  if (flag_in(*body, "clear"))
    for (const Job& job : facade->jobs(request.owner, kFinished, false, kMostJobs)) ids.push_back(job.id);
  for (const std::string& id : ids_in(*body, "delete")) {
    const auto job = facade->job(request.owner, id);
    if (job.ok() && is_terminal(job->state)) ids.push_back(id);
  }
  if (const auto done = facade->hidden.add(request.owner, ids); !done.ok()) return error_response(done.error());
  return http::HttpResponse::empty(200);
}

}  // namespace

void add_queue_routes(http::Router& router, const FacadePtr& facade) {
  add_both(router, "GET", "/queue", [facade](const http::HttpRequest& request) { return get_queue(facade, request); });
  add_both(router, "POST", "/queue", [facade](const http::HttpRequest& request) { return post_queue(facade, request); });
  add_both(router, "POST", "/interrupt", [facade](const http::HttpRequest& request) { return interrupt(facade, request); });
}

void add_history_routes(http::Router& router, const FacadePtr& facade) {
  add_both(router, "GET", "/history", [facade](const http::HttpRequest& request) { return get_history(facade, request); });
  add_both(router, "GET", "/history/{id}", [facade](const http::HttpRequest& request) { return get_history_of(facade, request); });
  add_both(router, "POST", "/history", [facade](const http::HttpRequest& request) { return post_history(facade, request); });
}

}  // namespace tritium::server::comfy
