#include "server/comfy/comfy.h"

#include "server/comfy/facade.h"

namespace tritium::server::comfy {

void add_routes(http::Router& router, JobService& service, const Options& options) {
  const auto facade = std::make_shared<Facade>(service, options);
  add_prompt_routes(router, facade);
  add_queue_routes(router, facade);
  add_history_routes(router, facade);
  add_job_routes(router, facade);
  add_file_routes(router, facade);
  add_system_routes(router, facade);
  add_both(router, "GET", "/ws", [facade](const http::HttpRequest& request) {
    const std::string owner = request.owner, client = request.query_value("clientId").value_or("");
    return http::HttpResponse::web_socket(
        [facade, owner, client](const std::shared_ptr<http::WebSocket>& socket) { facade->hub.connect(owner, client, socket); });
  });
  const auto writer = [](const http::HttpRequest&, int status, const Error& error) {
    const std::string message = error.field.empty() ? error.message : error.field + ": " + error.message;
    return error_response(status, status == 401 ? "unauthorized" : type_name_of(error.code), message, error.hint);
  };
  for (const char* prefix : {"/prompt", "/queue", "/history", "/interrupt", "/free", "/view", "/upload", "/system_stats", "/object_info",
                             "/features", "/embeddings", "/models", "/view_metadata", "/ws"}) {
    router.errors_below(prefix, writer);
    router.errors_below(std::string("/api") + prefix, writer);
  }
  router.errors_below("/api/jobs", [](const http::HttpRequest&, int status, const Error& error) {
    return json_response(status, {{"error", error.text()}});
  });
}

}  // namespace tritium::server::comfy
