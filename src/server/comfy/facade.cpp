#include "server/comfy/facade.h"

#include "base/try.h"
#include "server/comfy/names.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::server::comfy {
namespace {

std::filesystem::path data_folder(const JobService& service, const Options& options) {
  return options.data.empty() ? service.options().data / "comfy" : options.data;
}

}  // namespace

Facade::Facade(JobService& s, const Options& options)
    : service(s),
      uploads(data_folder(s, options) / "files", {options.max_upload_bytes, options.keep_uploads_days}),
      hidden(data_folder(s, options) / "history_hidden.txt", s),
      hub(s) {}

std::vector<Job> Facade::jobs(const std::string& owner, const std::vector<JobState>& states, bool oldest_first, std::size_t limit) const {
  constexpr std::size_t kPage = 1000;
  std::vector<Job> out;
  JobQuery query{owner, "comfy", states, "", kPage, oldest_first};
  while (out.size() < limit) {
    query.limit = std::min(kPage, limit - out.size());
    auto page = service.list(query);
    if (!page.ok() || page->jobs.empty()) break;
    for (Job& job : page->jobs) out.push_back(std::move(job));
    if (!page->has_more) break;
    query.after = out.back().id;
  }
  return out;
}

Result<Job> Facade::job(const std::string& owner, const std::string& id) const {
  TRITIUM_TRY_ASSIGN(Job found, service.get(id, owner));
  if (found.spec.dialect != "comfy") return Error{ErrorCode::not_found, fmt::format("there is no prompt '{}'", id), "prompt_id", ""};
  return found;
}

Result<Facade::Clip> Facade::clip(const std::string& owner, const std::string& subfolder, const std::string& name) const {
  const Error absent{ErrorCode::not_found, fmt::format("there is no clip '{}{}{}'", subfolder, subfolder.empty() ? "" : "/", name),
                     "filename", "names are in the history of the prompt, under outputs"};
  const auto parsed = parse_clip_file_name(name);
  if (!parsed || parsed->number == 0) return absent;
  auto found = job(owner, parsed->prompt_id);
  if (!found.ok() || found->state != JobState::completed || found->outputs.empty()) return absent;
  const Record record = decode_record(found->spec.dialect_data);
  const std::size_t at = parsed->number - 1;
  if (at >= record.outputs.size() || record.outputs[at].subfolder != subfolder ||
      clip_file_name(record.outputs[at].prefix, found->id, parsed->number) != name)
    return absent;
  return Clip{std::move(*found), at};
}

Result<std::filesystem::path> Facade::input_file(const std::string& owner, const std::string& name) const {
  const MarkedName marked = split_mark(name);
  const std::size_t slash = marked.name.rfind('/');
  const std::string subfolder = slash == std::string::npos ? "" : marked.name.substr(0, slash);
  const std::string file = slash == std::string::npos ? marked.name : marked.name.substr(slash + 1);
  if (slash == 0) return Error{ErrorCode::usage, fmt::format("'{}' is absolute; names are those of uploaded files", name), "", ""};
  if (marked.type == "output")
    if (auto found = clip(owner, subfolder, file); found.ok()) return found->job.outputs.front().video;
  return uploads.find(owner, marked.type, subfolder, file);
}

void add_both(http::Router& router, const std::string& method, const std::string& pattern, const http::Handler& handler) {
  router.add(method, pattern, handler);
  router.add(method, "/api" + pattern, handler);
}

http::HttpResponse json_response(int status, const Json& document) { return http::HttpResponse::json(status, text_of(document)); }

http::HttpResponse error_response(int status, const std::string& type, const std::string& message, const std::string& details) {
  return json_response(status, {{"error", {{"type", type}, {"message", message}, {"details", details}, {"extra_info", Json::object()}}},
                                {"node_errors", Json::object()}});
}

const char* type_name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return "invalid_request";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::conflict:
      return "conflict";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::does_not_fit:
      return "does_not_fit";
    default:
      return "server_error";
  }
}

http::HttpResponse error_response(const Error& error) {
  const std::string message = error.field.empty() ? error.message : error.field + ": " + error.message;
  auto out = error_response(http::http_status_of(error), type_name_of(error.code), message, error.hint);
  if (error.code == ErrorCode::busy) out.headers.emplace_back("retry-after", "5");
  return out;
}

Result<Json> body_object(const http::HttpRequest& request, bool may_be_empty) {
  if (request.body.empty() && may_be_empty) return Json::object();
  TRITIUM_TRY_ASSIGN(Json out, parse_document(request.body));
  if (!out.is_object()) return Error{ErrorCode::usage, "the body is not a JSON object", "", ""};
  return out;
}

std::vector<std::string> ids_in(const Json& body, const char* name) {
  std::vector<std::string> out;
  const auto found = body.find(name);
  if (found == body.end() || !found->is_array()) return out;
  for (const Json& each : *found)
    if (each.is_string() && out.size() < 1000) out.push_back(each.get<std::string>());
  return out;
}

bool flag_in(const Json& body, const char* name) {
  const auto found = body.find(name);
  return found != body.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace tritium::server::comfy
