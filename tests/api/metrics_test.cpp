// /health, /ready, /status and /metrics.
#include "server/metrics/metrics.h"
#include "api/native_fixture.h"

namespace tritium::test {
namespace {

using server::metrics::HttpCounts;
using server::metrics::path_class;

class Metrics : public Native {
 protected:
  Metrics() {
    server::metrics::add_routes(router_, service_, counts_, [] { return server::metrics::Gauges{3, 1}; });
  }
  std::string page() { return std::get<std::string>(get("/metrics").body); }
  static bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
  }

  std::shared_ptr<HttpCounts> counts_ = std::make_shared<HttpCounts>();
};

TEST_F(Metrics, CountJobsAndRequests) {
  const std::string id = accepted({{"prompt", "x"}}).id;
  accepted({{"prompt", "y"}});
  service_.run(id);
  ServiceStatus status;
  status.ready = true;
  status.completed = 4;
  status.cancelled = 1;
  status.failed = {{"rejected", 2}, {"worker died", 1}};
  status.stage_seconds = {{"denoise", 12.5}};
  status.stage_runs = {{"denoise", 3}};
  status.steps = 150;
  status.tokens = 1234567;
  status.workers = {{"worker-0", "GPU0", "working", id, 1024, 2}};
  service_.set_status(status);
  counts_->count("GET", "/v1/videos/abc", 200, 0.001);
  counts_->count("GET", "/v1/videos/def", 200, 0.3);
  counts_->count("BREW", "/pot/" + std::string(1000, 'x'), 404, 0.001);
  const std::string text = page();
  for (const char* line :
       {"tritium_jobs_queued 1", "tritium_jobs_running 1", "tritium_jobs_finished_total{result=\"completed\",reason=\"\"} 4",
        "tritium_jobs_finished_total{result=\"failed\",reason=\"worker died\"} 1", "tritium_stage_seconds_total{stage=\"denoise\"} 12.5",
        "tritium_denoising_steps_total 150", "tritium_transformer_tokens_total 1234567",
        "tritium_worker_memory_bytes{worker=\"worker-0\"} 1024", "tritium_worker_busy{worker=\"worker-0\",device=\"GPU0\"} 1",
        "tritium_http_requests_total{method=\"GET\",path=\"/v1/videos/{id}\",status=\"200\"} 2",
        "tritium_http_requests_total{method=\"other\",path=\"other\",status=\"404\"} 1",
        "tritium_http_request_seconds_bucket{path=\"/v1/videos/{id}\",le=\"0.5\"} 2", "tritium_http_connections 3", "tritium_ready 1"})
    EXPECT_TRUE(has_line(text, line)) << line << "\nis not in\n" << text;
  EXPECT_EQ(text.find("xxx"), std::string::npos);
}

TEST_F(Metrics, ReadyOrNot) {
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/ready").status, 200);
  ServiceStatus status;
  status.reason = "the disk is full";
  service_.set_status(status);
  EXPECT_EQ(get("/health").status, 200);
  const auto response = get("/ready");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(json_of(response)["reason"], "the disk is full");
  EXPECT_EQ(get("/status").status, 200);
  EXPECT_EQ(json_of(get("/status"))["ready"], false);
  status.ready = true;
  service_.set_status(status);
  service_.stop(0);
  EXPECT_EQ(get("/ready").status, 503);
}

TEST(PathClass, IsOneOfAFew) {
  for (const auto& [path, name] : {std::pair{"/", "/"},
                                   {"/v1/videos", "/v1/videos"},
                                   {"/v1/videos/abc", "/v1/videos/{id}"},
                                   {"/v1/videos/abc/content", "/v1/videos/{id}/content"},
                                   {"/v1/videos/abc/nothing", "other"},
                                   {"/v1/videos/sync", "/v1/videos/sync"},
                                   {"/api/prompt", "/prompt"},
                                   {"/history/abc", "/history"},
                                   {"/v2/query/video_generation/1", "/v2/query"},
                                   {"/etc/passwd", "other"},
                                   {"//", "other"},
                                   {"", "/"}})
    EXPECT_EQ(path_class(path), name) << path;
}

}  // namespace
}  // namespace tritium::test
