// What this dialect answers with.
#pragma once

#include "job/job.h"
#include "server/http/message.h"

#include <nlohmann/json.hpp>

namespace tritium::server::native {

// One line, whatever the bytes of the strings in it.
std::string dump(const nlohmann::ordered_json& document);

// {"error": {"message", "type", "param", "code"}, "detail"}; with Retry-After where trying again may help.
http::HttpResponse error_answer(const http::HttpRequest& request, int status, const Error& error);
http::HttpResponse error_answer(const http::HttpRequest& request, const Error& error);
// The status of an error of the service: what a request asks for that this server's model cannot do is the request's fault.
int status_of(const Error& error);

// The video object of a job; `model` is the name of what the server runs.
nlohmann::ordered_json video_json(const Job& job, const std::string& model);
// The settings of a job as a body that can be posted again; its files as "tritium:JOB/INPUT".
nlohmann::ordered_json settings_json(const Job& job);
// Of a job's state within it: "queued", "in_progress", "completed" or "failed".
const char* status_word(JobState state);
// What changes while a job runs.
nlohmann::ordered_json progress_json(const Job& job);

}  // namespace tritium::server::native
