#include "server/minimax/facade.h"

#include "base/try.h"
#include "server/minimax/fields.h"

#include <fmt/format.h>
#include <chrono>

namespace tritium::server::minimax {
namespace {

constexpr const char* kFileScheme = "mm_file://";
constexpr std::size_t kMostTasks = 10000;

std::filesystem::path data_folder(const JobService& service, const Options& options) {
  return options.data.empty() ? service.options().data / "minimax" : options.data;
}

}  // namespace

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Facade::Facade(JobService& s, const Options& o)
    : service(s),
      options(o),
      files(data_folder(s, o) / "files", o.max_file_bytes, o.keep_files_days),
      links(data_folder(s, o), o),
      callbacks(data_folder(s, o), s, links, o.urls) {}

Result<Job> Facade::task(const std::string& owner, const std::string& id) const {
  auto found = service.get(id, owner);
  if (!found.ok() || found->spec.dialect != "minimax")
    return Error{ErrorCode::not_found, fmt::format("there is no task '{}'", id.substr(0, 100)), "task_id",
                 "GET /v2/query/video_generation lists them"};
  return found;
}

std::vector<Job> Facade::tasks(const std::string& owner) const {
  std::vector<Job> out;
  JobQuery query{owner, "minimax", {}, "", 1000, false};
  while (out.size() < kMostTasks) {
    auto page = service.list(query);
    if (!page.ok() || page->jobs.empty()) break;
    for (Job& job : page->jobs) out.push_back(std::move(job));
    if (!page->has_more) break;
    query.after = out.back().id;
  }
  return out;
}

std::string Facade::address(const http::HttpRequest& request, const Job& job) const {
  return job.state == JobState::completed ? links.address(links.base_of(request), job.id, request.owner, unix_seconds()) : std::string();
}

Result<Job> Facade::create(const http::HttpRequest& request, const Creation& creation) {
  if (!creation.callback_url.empty() && !options.urls.allowed)
    return wrong("callback_url", "the server calls no addresses; it is started without --allow-url-inputs",
                 "leave it out and query the task");
  MediaInputs inputs(options.spool, options.urls);
  const auto resolve = [&](const MediaItem& item) -> Result<std::filesystem::path> {
    if (item.url.rfind(kFileScheme, 0) != 0) return inputs.from_uri(item.url, item.field);
    auto file = files.find(request.owner, item.url.substr(std::string(kFileScheme).size()));
    if (!file.ok()) return Error{ErrorCode::usage, file.error().message, item.field, file.error().hint};
    return file->path;
  };
  Creation remembered = creation;
  if (!creation.callback_url.empty()) {
    TRITIUM_TRY(callbacks.prove(creation.callback_url));
    TRITIUM_TRY(callbacks.follow(request.owner));
    remembered.link_base = links.base_of(request);
  }
  JobSpec spec;
  TRITIUM_TRY_ASSIGN(spec.request, request_of(creation, resolve));
  spec.owner = request.owner;
  spec.idempotency_key = std::string(request.header("idempotency-key"));
  spec.dialect = "minimax";
  spec.dialect_data = encode_creation(remembered);
  TRITIUM_TRY_ASSIGN(Submitted submitted, service.submit(spec));
  return std::move(submitted.job);
}

int status_of(const Error& error) { return error.code == ErrorCode::model ? 400 : http::http_status_of(error); }

http::HttpResponse json_response(int status, const Json& document) { return http::HttpResponse::json(status, text_of(document)); }

http::HttpResponse v2_error(const http::HttpRequest& request, const Error& error) {
  auto out = json_response(status_of(error), error_json(status_of(error), error, request.id));
  if (error.code == ErrorCode::busy) out.headers.emplace_back("retry-after", "5");
  return out;
}

http::HttpResponse v1_error(const Error& error) {
  const int status = status_of(error);
  auto out = json_response(status, {{"base_resp", base_resp(inner_code(status), error.text())}});
  if (error.code == ErrorCode::busy) out.headers.emplace_back("retry-after", "5");
  return out;
}

}  // namespace tritium::server::minimax
