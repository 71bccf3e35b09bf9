#include "server/metrics/metrics.h"

#include <nlohmann/json.hpp>

namespace tritium::server::metrics {
namespace {

using http::HttpRequest;
using http::HttpResponse;
using nlohmann::ordered_json;

ordered_json ready_json(const ServiceStatus& s) {
  ordered_json out{{"ready", s.ready && !s.draining}, {"draining", s.draining}, {"queued", s.queued}, {"running", s.running}};
  out["reason"] = s.draining ? "the server is shutting down" : s.reason;
  out["workers"] = ordered_json::array();
  for (const WorkerStatus& w : s.workers)
    out["workers"].push_back({{"name", w.name},
                              {"device", w.device},
                              {"state", w.state},
                              {"job", w.job.empty() ? ordered_json() : ordered_json(w.job)},
                              {"memory_bytes", w.memory_bytes},
                              {"restarts", w.restarts}});
  return out;
}

std::string ready_text(const ServiceStatus& status) {
  return ready_json(status).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

HttpResponse ready(JobService& service) {
  const ServiceStatus status = service.status();
  const bool yes = status.ready && !status.draining;
  auto out = HttpResponse::json(yes ? 200 : 503, ready_text(status));
  if (!yes) out.headers.emplace_back("retry-after", "5");
  return out;
}

}  // namespace

void add_routes(http::Router& router, JobService& service, std::shared_ptr<HttpCounts> counts, std::function<Gauges()> gauges) {
  router.add("GET", "/health", [](const HttpRequest&) {
    return HttpResponse::json(200, ordered_json{{"status", "ok"}, {"version", version()}}.dump());
  });
  router.add("GET", "/status", [&service](const HttpRequest&) { return HttpResponse::json(200, ready_text(service.status())); });
  router.add("GET", "/ready", [&service](const HttpRequest&) { return ready(service); });
  router.add("GET", "/metrics", [&service, counts = std::move(counts), gauges = std::move(gauges)](const HttpRequest&) {
    auto out = HttpResponse::text(200, metrics_text(service.status(), *counts, gauges ? gauges() : Gauges{}));
    out.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return out;
  });
}

}  // namespace tritium::server::metrics
