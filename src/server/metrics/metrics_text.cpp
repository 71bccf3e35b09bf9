#include "server/metrics/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>

namespace tritium::server::metrics {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;

// Families in the order in which they are added.
class Page {
 public:
  void gauge(const char* name, const char* help, double value, Labels labels = {}) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    metric.gauge.value = value;
    family(name, help, prometheus::MetricType::Gauge).metric.push_back(std::move(metric));
  }
  void counter(const char* name, const char* help, double value, Labels labels = {}) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = value;
    family(name, help, prometheus::MetricType::Counter).metric.push_back(std::move(metric));
  }
  void histogram(const char* name, const char* help, const HttpCounts::Times& times, Labels labels) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < times.counts.size(); ++i) {
      sum += times.counts.at(i);
      const bool rest = i == HttpCounts::kBounds.size();
      metric.histogram.bucket.push_back({sum, rest ? std::numeric_limits<double>::infinity() : HttpCounts::kBounds.at(i)});
    }
    metric.histogram.sample_count = sum;
    metric.histogram.sample_sum = times.sum;
    family(name, help, prometheus::MetricType::Histogram).metric.push_back(std::move(metric));
  }
  [[nodiscard]] std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  prometheus::MetricFamily& family(const char* name, const char* help, prometheus::MetricType type) {
    if (families_.empty() || families_.back().name != name) families_.push_back({name, help, type, {}});
    return families_.back();
  }

  std::vector<prometheus::MetricFamily> families_;
};

void put_jobs(Page& page, const ServiceStatus& s) {
  page.gauge("tritium_ready", "Whether jobs can be taken", s.ready ? 1 : 0);
  page.gauge("tritium_draining", "Whether the service is shutting down", s.draining ? 1 : 0);
  page.gauge("tritium_jobs_queued", "Jobs that wait", static_cast<double>(s.queued));
  page.gauge("tritium_jobs_running", "Jobs that are computed", static_cast<double>(s.running));
  const char* name = "tritium_jobs_finished_total";
  const char* help = "Jobs that ended since the start of the server, by result and reason";
  page.counter(name, help, static_cast<double>(s.completed), {{"result", "completed"}, {"reason", ""}});
  page.counter(name, help, static_cast<double>(s.cancelled), {{"result", "cancelled"}, {"reason", ""}});
  for (const auto& [reason, count] : s.failed)
    page.counter(name, help, static_cast<double>(count), {{"result", "failed"}, {"reason", reason}});
  for (const auto& [stage, seconds] : s.stage_seconds)
    page.counter("tritium_stage_seconds_total", "Seconds spent in a stage", seconds, {{"stage", stage}});
  for (const auto& [stage, count] : s.stage_runs)
    page.counter("tritium_stage_runs_total", "How often a stage ran", static_cast<double>(count), {{"stage", stage}});
  page.counter("tritium_denoising_steps_total", "Evaluations of the diffusion transformer", static_cast<double>(s.steps));
  page.counter("tritium_transformer_tokens_total", "Rows the diffusion transformer computed, over all steps",
               static_cast<double>(s.tokens));
}

void put_workers(Page& page, const ServiceStatus& s) {
  for (const WorkerStatus& w : s.workers)
    page.gauge("tritium_worker_busy", "Whether a worker computes", w.state == "working" ? 1 : 0,
               {{"worker", w.name}, {"device", w.device}});
  for (const WorkerStatus& w : s.workers)
    page.gauge("tritium_worker_state", "What a worker does", 1, {{"worker", w.name}, {"state", w.state}});
  for (const WorkerStatus& w : s.workers)
    page.gauge("tritium_worker_memory_bytes", "Resident memory of a worker process", static_cast<double>(w.memory_bytes),
               {{"worker", w.name}});
  for (const WorkerStatus& w : s.workers)
    page.counter("tritium_worker_restarts_total", "Worker processes that were started again", w.restarts, {{"worker", w.name}});
}

}  // namespace

std::string metrics_text(const ServiceStatus& status, const HttpCounts& counts, const Gauges& gauges) {
  Page page;
  page.gauge("tritium_info", "The version of the server", 1, {{"version", version()}});
  put_jobs(page, status);
  put_workers(page, status);
  page.gauge("tritium_http_connections", "Open connections", static_cast<double>(gauges.connections));
  page.gauge("tritium_http_busy_handlers", "Requests that are being answered", static_cast<double>(gauges.busy_handlers));
  for (const auto& [key, count] : counts.requests())
    page.counter("tritium_http_requests_total", "Answered requests", static_cast<double>(count),
                 {{"method", key[0]}, {"path", key[1]}, {"status", key[2]}});
  for (const auto& [place, times] : counts.times())
    page.histogram("tritium_http_request_seconds", "From a request's first byte to its answer's last", times, {{"path", place}});
  return page.text();
}

}  // namespace tritium::server::metrics
