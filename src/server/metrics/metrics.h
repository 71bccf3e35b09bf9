// How the server does: /health and /ready for supervisors, /metrics for Prometheus, /status for people (as /ready, but always 200).
#pragma once

#include "job/service.h"
#include "server/http/router.h"

#include <array>
#include <mutex>

namespace tritium::server::metrics {

// Answered requests, by class of their path and by status. May be counted from any thread.
class HttpCounts {
 public:
  // Upper bounds of the classes of seconds; one more takes the rest.
  static constexpr std::array<double, 8> kBounds{0.005, 0.02, 0.1, 0.5, 2, 10, 60, 600};

  struct Times {
    std::array<std::uint64_t, kBounds.size() + 1> counts{};
    double sum = 0;
  };
  void count(const std::string& method, const std::string& path, int status, double seconds);

  [[nodiscard]] std::map<std::array<std::string, 3>, std::uint64_t> requests() const;  // {method, class, status}
  [[nodiscard]] std::map<std::string, Times> times() const;                            // by class

 private:
  mutable std::mutex mutex_;
  std::map<std::array<std::string, 3>, std::uint64_t> requests_;
  std::map<std::string, Times> times_;
};

// "/v1/videos/abc/content" → "/v1/videos/{id}/content". Paths nobody serves share one class, so that clients cannot make new ones.
std::string path_class(const std::string& path);

struct Gauges {
  std::size_t connections = 0, busy_handlers = 0;
};

// `gauges` may be empty. The service outlives the router.
void add_routes(http::Router& router, JobService& service, std::shared_ptr<HttpCounts> counts, std::function<Gauges()> gauges);

// The text of /metrics.
std::string metrics_text(const ServiceStatus& status, const HttpCounts& counts, const Gauges& gauges);

}  // namespace tritium::server::metrics
