// /v2/video_generation and its queries.
#include "server/minimax/facade.h"
#include "server/minimax/fields.h"

#include "base/try.h"

#include <fmt/format.h>
#include <charconv>

namespace tritium::server::minimax {
namespace {

Result<std::size_t> page_number(const http::HttpRequest& request, const char* name, std::size_t standard, std::size_t most) {
  const auto text = request.query_value(name);
  if (!text) return standard;
  std::size_t out = 0;
  const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), out);
  if (code != std::errc{} || end != text->data() + text->size() || out < 1 || out > most)
    return wrong(name, fmt::format("'{}' is not allowed; allowed are whole numbers from 1 to {}", text->substr(0, 50), most));
  return out;
}

Result<http::HttpResponse> create(Facade& facade, const http::HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Json body, parse_object(request.body));
  TRITIUM_TRY_ASSIGN(const Creation creation, read_v2(body));
  TRITIUM_TRY_ASSIGN(const Job job, facade.create(request, creation));
  return json_response(200, {{"task_id", job.id}});
}

Result<http::HttpResponse> query(Facade& facade, const http::HttpRequest& request, const std::string& id) {
  TRITIUM_TRY_ASSIGN(const Job job, facade.task(request.owner, id));
  return json_response(200, {{"task", task_json(job, facade.address(request, job))}});
}

Result<http::HttpResponse> list(Facade& facade, const http::HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const std::size_t page, page_number(request, "page_num", 1, 1000000));
  TRITIUM_TRY_ASSIGN(const std::size_t size, page_number(request, "page_size", 10, 500));
  const std::vector<Job> tasks = facade.tasks(request.owner);
  Json items = Json::array();
  for (std::size_t i = (page - 1) * size; i < std::min(page * size, tasks.size()); ++i)
    items.push_back(task_json(tasks[i], facade.address(request, tasks[i])));
  return json_response(200, {{"items", items}, {"total", tasks.size()}});
}

Result<http::HttpResponse> remove(Facade& facade, const http::HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Job job, facade.task(request.owner, request.params.at("id")));
  if (job.state == JobState::running)
    return Error{ErrorCode::usage, fmt::format("task '{}' is running and cannot be deleted", job.id), "task_id",
                 "wait for its end; DELETE /v1/videos/{id} of this server's own interface stops running jobs too"};
  if (job.state == JobState::queued) {
    TRITIUM_TRY_ASSIGN(const Job now, facade.service.cancel(job.id, request.owner));
    return json_response(200, {{"task_id", now.id}, {"action", "cancelled"}, {"status", status_word(now.state)}});
  }
  TRITIUM_TRY_ASSIGN(const Job gone, facade.service.remove(job.id, request.owner));
  return json_response(200, {{"task_id", gone.id}, {"action", "deleted"}, {"status", status_word(job.state)}});
}

Result<http::HttpResponse> download(Facade& facade, const http::HttpRequest& request) {
  const std::string id = request.params.at("id");
  const auto owner = facade.links.owner_of(request, id, unix_seconds());
  if (!owner.ok()) return json_response(403, error_json(403, owner.error(), request.id));
  TRITIUM_TRY_ASSIGN(const Job job, facade.task(*owner, id));
  if (job.state != JobState::completed || job.outputs.empty())
    return Error{ErrorCode::not_found, fmt::format("task '{}' has no video", id), "task_id", "it has one when its status is succeeded"};
  return http::HttpResponse::file(job.outputs.front().video, "video/mp4", job.outputs.front().sha256);
}

http::Handler answering(const FacadePtr& facade, Result<http::HttpResponse> (*function)(Facade&, const http::HttpRequest&)) {
  return [facade, function](const http::HttpRequest& request) {
    auto out = function(*facade, request);
    return out.ok() ? std::move(*out) : v2_error(request, out.error());
  };
}

// Parts of the hosted service that have no counterpart: they need models that are not published.
http::Handler not_offered(const std::string& what, const std::string& instead) {
  return [what, instead](const http::HttpRequest& request) {
    return v2_error(request, Error{ErrorCode::usage, what + " is not offered by this server", "", instead});
  };
}

}  // namespace

void add_v2_routes(http::Router& router, const FacadePtr& facade) {
  router.add("POST", "/v2/video_generation", answering(facade, create));
  router.add("DELETE", "/v2/video_generation/{id}", answering(facade, remove));
  // Both ways to name the task are in use.
  router.add("GET", "/v2/query/video_generation/{id}", [facade](const http::HttpRequest& request) {
    auto out = query(*facade, request, request.params.at("id"));
    return out.ok() ? std::move(*out) : v2_error(request, out.error());
  });
  router.add("GET", "/v2/query/video_generation", [facade](const http::HttpRequest& request) {
    const auto id = request.query_value("task_id");
    auto out = id ? query(*facade, request, *id) : list(*facade, request);
    return out.ok() ? std::move(*out) : v2_error(request, out.error());
  });
  router.add("GET", "/v2/download/{id}/{name}", answering(facade, download));
  router.add("POST", "/v2/h3_context_ir", not_offered("h3_context_ir", "write the prompt as it is to be used"));
  router.add("POST", "/v2/video_regeneration", not_offered("video regeneration", "videos are made at 768P"));
}

}  // namespace tritium::server::minimax
