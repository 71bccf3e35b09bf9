// Jobs in the words of this dialect.
#pragma once

#include "job/job.h"
#include "server/minimax/creation.h"

namespace tritium::server::minimax {

// What a job of this dialect remembers of its request.
std::string encode_creation(const Creation& creation);
Creation decode_creation(const std::string& text);  // without media

// A task of /v2/query. `url` of a succeeded one.
Json task_json(const Job& job, const std::string& url);
const char* status_word(JobState state);     // "queued", "running", "succeeded", ...
const char* status_word_v1(JobState state);  // "Queueing", "Processing", "Success", "Fail"

// The inner code of an error: 1000 unknown, 1002 too many requests, 1004 not authorized, 1008 balance, 1026 content, 2013 parameters.
int inner_code(int http_status);
// {"type": "error", "error": {"type", "message", "http_code"}, "request_id"}
Json error_json(int http_status, const Error& error, const std::string& request_id);
// {"status_code": 2013, "status_msg": "..."}
Json base_resp(int code, const std::string& message);

}  // namespace tritium::server::minimax
