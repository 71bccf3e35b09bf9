// The native dialect: /v1/videos in the shape of OpenAI's API, with the fields of SGLang Diffusion, vLLM-Omni and FastVideo for this
// model (docs/serving.md, openapi.json).
#pragma once

#include "job/service.h"
#include "server/http/router.h"
#include "server/input/media_input.h"

namespace tritium::server::native {

struct Options {
  std::filesystem::path spool;    // inputs of requests lie here until the job has its own
  UrlPolicy urls;                 // of pictures, videos and sounds that a request names by address
  double sync_seconds = 3600;     // POST /v1/videos/sync answers at the latest after so long
  int sync_waiting = 32;          // requests that wait so at the same time, each on a thread of the server; more are refused as busy
  std::size_t kept_events = 512;  // of one owner, for clients that come back with Last-Event-ID
};

// The service outlives the router.
void add_routes(http::Router& router, JobService& service, const Options& options);

// OpenAPI 3.1, of these routes and of those of other dialects that are described in openapi.json.
std::string_view openapi_document();

}  // namespace tritium::server::native
