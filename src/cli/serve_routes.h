// Everything a server answers: the dialects side by side, none of which knows another.
#pragma once

#include "job/service.h"
#include "server/http/router.h"
#include "server/input/media_input.h"
#include "server/metrics/metrics.h"

namespace tritium::cli {

struct RouteOptions {
  std::filesystem::path spool;
  server::UrlPolicy urls;
  double sync_seconds = 3600;
  bool keys = false, https = false;  // are used
  std::shared_ptr<server::metrics::HttpCounts> counts;
  std::function<server::metrics::Gauges()> gauges;
};

// The service outlives the router.
http::Router all_routes(JobService& service, const RouteOptions& options);

// Paths of them that are answered without an API key, because what they give is proved in another way.
std::vector<std::string> keyless_paths();

}  // namespace tritium::cli
