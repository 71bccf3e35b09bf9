// The dialect of ComfyUI: its routes with and without "/api" in front, its events on /ws, its words for what is wrong.
// docs/comfyui.md says what is understood.
#pragma once

#include "job/service.h"
#include "server/http/router.h"

namespace tritium::server::comfy {

struct Options {
  std::filesystem::path data;  // uploaded files and what was taken out of the history; empty: "comfy" in the service's folder
  std::uint64_t max_upload_bytes = 20ull << 30;  // of one owner's files together
  double keep_uploads_days = 30;                 // since a file was uploaded or used last; 0: for ever
};

// The router keeps what the routes need; it has to go before the service.
void add_routes(http::Router& router, JobService& service, const Options& options = {});

}  // namespace tritium::server::comfy
