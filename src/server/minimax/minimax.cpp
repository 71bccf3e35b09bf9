#include "server/minimax/minimax.h"

#include "server/minimax/facade.h"

namespace tritium::server::minimax {

std::vector<std::string> public_paths() { return {"/v2/download/*"}; }

void add_routes(http::Router& router, JobService& service, const Options& options) {
  const auto facade = std::make_shared<Facade>(service, options);
  add_v2_routes(router, facade);
  add_v1_routes(router, facade);
  add_file_routes(router, facade);
  router.errors_below("/v2", [](const http::HttpRequest& request, int status, const Error& error) {
    return json_response(status, error_json(status, error, request.id));
  });
  for (const char* prefix : {"/v1/video_generation", "/v1/query", "/v1/files"})
    router.errors_below(prefix, [](const http::HttpRequest&, int status, const Error& error) {
      return json_response(status, {{"base_resp", base_resp(inner_code(status), error.text())}});
    });
}

}  // namespace tritium::server::minimax
