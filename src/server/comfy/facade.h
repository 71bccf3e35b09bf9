// What the routes of the dialect share.
#pragma once

#include "server/comfy/comfy.h"
#include "server/comfy/hidden_jobs.h"
#include "server/comfy/hub.h"
#include "server/comfy/messages.h"
#include "server/comfy/uploads.h"

namespace tritium::server::comfy {

struct Facade {
  Facade(JobService& service, const Options& options);

  JobService& service;
  Uploads uploads;
  HiddenJobs hidden;
  Hub hub;

  // This owner's jobs of this dialect in these states, oldest or newest first, at most `limit`.
  [[nodiscard]] std::vector<Job> jobs(const std::string& owner, const std::vector<JobState>& states, bool oldest_first,
                                      std::size_t limit) const;
  // A job of this dialect. Error: not_found.
  [[nodiscard]] Result<Job> job(const std::string& owner, const std::string& id) const;
  // The clip that a file name of /view or LoadVideo stands for. Error: not_found.
  struct Clip {
    Job job;
    std::size_t number = 0;  // of the output node, from 0
  };
  [[nodiscard]] Result<Clip> clip(const std::string& owner, const std::string& subfolder, const std::string& name) const;
  // "a.png", "folder/a.png", "a.mp4 [output]". Errors: usage, not_found.
  [[nodiscard]] Result<std::filesystem::path> input_file(const std::string& owner, const std::string& name) const;
};

using FacadePtr = std::shared_ptr<Facade>;

void add_prompt_routes(http::Router& router, const FacadePtr& facade);
void add_queue_routes(http::Router& router, const FacadePtr& facade);
void add_history_routes(http::Router& router, const FacadePtr& facade);
void add_job_routes(http::Router& router, const FacadePtr& facade);
void add_file_routes(http::Router& router, const FacadePtr& facade);
void add_system_routes(http::Router& router, const FacadePtr& facade);

// The route, and the same below /api.
void add_both(http::Router& router, const std::string& method, const std::string& pattern, const http::Handler& handler);

http::HttpResponse json_response(int status, const Json& document);
// {"error": {"type", "message", "details", "extra_info"}, "node_errors": {}}
http::HttpResponse error_response(int status, const std::string& type, const std::string& message, const std::string& details = {});
http::HttpResponse error_response(const Error& error);
const char* type_name_of(ErrorCode code);

// The body as an object; an empty body is an empty object where `may_be_empty`. Error: usage.
Result<Json> body_object(const http::HttpRequest& request, bool may_be_empty);
// A list of ids in a body; other things are passed over. At most 1000.
std::vector<std::string> ids_in(const Json& body, const char* name);
bool flag_in(const Json& body, const char* name);

}  // namespace tritium::server::comfy
