#include "cli/serve_routes.h"

#include "server/comfy/comfy.h"
#include "server/minimax/minimax.h"
#include "server/native/native.h"
#include "server/ui/ui.h"

namespace tritium::cli {

http::Router all_routes(JobService& service, const RouteOptions& options) {
  http::Router router;
  server::native::Options native;
  native.spool = options.spool;
  native.urls = options.urls;
  native.sync_seconds = options.sync_seconds;
  server::native::add_routes(router, service, native);
  server::comfy::add_routes(router, service);
  server::minimax::Options minimax;
  minimax.spool = options.spool;
  minimax.urls = options.urls;
  minimax.public_url = options.public_url;
  minimax.https = options.https;
  minimax.sign_links = options.keys;
  server::minimax::add_routes(router, service, minimax);
  server::metrics::add_routes(router, service, options.counts, options.gauges);
  server::ui::add_routes(router);
  return router;
}

std::vector<std::string> public_paths() {
  std::vector<std::string> out{"/health", "/ready"};
  for (const auto& more : {server::ui::public_paths(), server::minimax::public_paths()}) out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace tritium::cli
