#include "cli/serve_routes.h"

#include "server/native/native.h"

namespace tritium::cli {

http::Router all_routes(JobService& service, const RouteOptions& options) {
  http::Router router;
  server::native::Options native;
  native.spool = options.spool;
  native.urls = options.urls;
  native.sync_seconds = options.sync_seconds;
  server::native::add_routes(router, service, native);
  server::metrics::add_routes(router, service, options.counts, options.gauges);
  return router;
}

}  // namespace tritium::cli
