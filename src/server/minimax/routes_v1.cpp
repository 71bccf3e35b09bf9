// The older /v1/video_generation, and files.
#include "server/minimax/facade.h"
#include "server/minimax/fields.h"

#include "base/try.h"

#include <fmt/format.h>

namespace tritium::server::minimax {
namespace {

Json fine() { return base_resp(0, "success"); }

Result<http::HttpResponse> create(Facade& facade, const http::HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Json body, parse_object(request.body));
  TRITIUM_TRY_ASSIGN(const Creation creation, read_v1(body));
  TRITIUM_TRY_ASSIGN(const Job job, facade.create(request, creation));
  return json_response(200, {{"task_id", job.id}, {"base_resp", fine()}});
}

Result<http::HttpResponse> query(Facade& facade, const http::HttpRequest& request) {
  const auto id = request.query_value("task_id");
  if (!id) return wrong("task_id", "is missing");
  TRITIUM_TRY_ASSIGN(const Job job, facade.task(request.owner, *id));
  Json out{{"task_id", job.id}, {"status", status_word_v1(job.state)}};
  out["file_id"] = job.state == JobState::completed ? job.id : "";
  out["video_width"] = job.plan.width;
  out["video_height"] = job.plan.height;
  out["base_resp"] = fine();
  if (job.state == JobState::failed && job.error)
    out["base_resp"] = base_resp(inner_code(job.error->code == ErrorCode::usage ? 400 : 500),
                                 Error{job.error->code, job.error->message, job.error->field, job.error->hint}.text());
  if (job.state == JobState::cancelled) out["base_resp"] = base_resp(inner_code(400), "the task was cancelled");
  return json_response(200, out);
}

Json file_json(const StoredFile& file) {
  return {{"file_id", file.id}, {"bytes", file.bytes}, {"created_at", file.created}, {"filename", file.name}, {"purpose", file.purpose}};
}

// A made video is a file under its task's id.
Result<http::HttpResponse> retrieve(Facade& facade, const http::HttpRequest& request) {
  const auto id = request.query_value("file_id");
  if (!id) return wrong("file_id", "is missing");
  if (const auto file = facade.files.find(request.owner, *id); file.ok())
    return json_response(200, {{"file", file_json(*file)}, {"base_resp", fine()}});
  const auto job = facade.task(request.owner, *id);
  if (!job.ok() || job->state != JobState::completed || job->outputs.empty())
    return Error{ErrorCode::not_found, fmt::format("there is no file '{}'", id->substr(0, 100)), "file_id",
                 "GET /v1/query/video_generation gives the file_id of a finished task"};
  return json_response(200, {{"file",
                              {{"file_id", job->id},
                               {"bytes", job->outputs.front().bytes},
                               {"created_at", job->finished / 1000},
                               {"filename", "output.mp4"},
                               {"purpose", "video_generation"},
                               {"download_url", facade.address(request, *job)}}},
                             {"base_resp", fine()}});
}

Result<http::HttpResponse> upload(Facade& facade, const http::HttpRequest& request) {
  const http::FormField* file = nullptr;
  std::string purpose;
  for (const http::FormField& each : request.form) {
    if (each.is_file && each.name == "file") file = &each;
    if (!each.is_file && each.name == "purpose") purpose = each.value;
  }
  if (file == nullptr) return wrong("file", "is missing", "send multipart/form-data with the fields purpose and file");
  if (purpose.size() > 100) return wrong("purpose", "is longer than 100 bytes");
  TRITIUM_TRY_ASSIGN(const StoredFile stored, facade.files.store(request.owner, *file, purpose, unix_seconds()));
  return json_response(200, {{"file", file_json(stored)}, {"base_resp", fine()}});
}

Result<http::HttpResponse> list(Facade& facade, const http::HttpRequest& request) {
  const auto purpose = request.query_value("purpose");
  Json files = Json::array();
  for (const StoredFile& each : facade.files.list(request.owner))
    if (!purpose || *purpose == each.purpose) files.push_back(file_json(each));
  return json_response(200, {{"files", files}, {"base_resp", fine()}});
}

Result<http::HttpResponse> remove(Facade& facade, const http::HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Json body, parse_object(request.body));
  const auto given = body.find("file_id");
  if (given == body.end() || !(given->is_string() || given->is_number_integer())) return wrong("file_id", "is missing");
  const std::string id = given->is_string() ? given->get<std::string>() : given->dump();
  TRITIUM_TRY(facade.files.remove(request.owner, id));
  return json_response(200, {{"file_id", *given}, {"base_resp", fine()}});
}

http::Handler answering(const FacadePtr& facade, Result<http::HttpResponse> (*function)(Facade&, const http::HttpRequest&)) {
  return [facade, function](const http::HttpRequest& request) {
    auto out = function(*facade, request);
    return out.ok() ? std::move(*out) : v1_error(out.error());
  };
}

}  // namespace

void add_v1_routes(http::Router& router, const FacadePtr& facade) {
  router.add("POST", "/v1/video_generation", answering(facade, create));
  router.add("GET", "/v1/query/video_generation", answering(facade, query));
}

void add_file_routes(http::Router& router, const FacadePtr& facade) {
  router.add("GET", "/v1/files/retrieve", answering(facade, retrieve));
  router.add("POST", "/v1/files/upload", answering(facade, upload));
  router.add("GET", "/v1/files/list", answering(facade, list));
  router.add("POST", "/v1/files/delete", answering(facade, remove));
}

}  // namespace tritium::server::minimax
