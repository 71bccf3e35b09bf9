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
  std::string public_url;  // in front of links; empty: as the request came
  bool https = false, keys = false;
  std::shared_ptr<server::metrics::HttpCounts> counts;
  std::function<server::metrics::Gauges()> gauges;
};

// The service outlives the router.
http::Router all_routes(JobService& service, const RouteOptions& options);

// Paths that need no key, as http::ServerOptions::public_paths.
std::vector<std::string> public_paths();

}  // namespace tritium::cli
